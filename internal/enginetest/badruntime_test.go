package enginetest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// lines collects the lines of a log.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) configure(c *podwright.Config) {
	c.Observe.Logger = funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text = append(l.text, prefix+" "+args)
	}, funcr.Options{})
}

// count returns the number of lines that contain all these words.
func (l *lines) count(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.text {
		has := true
		for _, w := range words {
			has = has && strings.Contains(line, w)
		}
		if has {
			n++
		}
	}
	return n
}

// labelled returns the labels of a pod, including its owner if there is one.
func labelled(name, uid, owner string) map[string]string {
	l := map[string]string{runtime.LabelPodName: name, runtime.LabelPodNamespace: "default", runtime.LabelPodUID: uid, runtime.LabelContainerName: "main"}
	if owner != "" {
		l[runtime.LabelOwner] = owner
	}
	return l
}

// smuggle runs a sandbox and a container past the engine.
func (r *rig) smuggle(metadata *runtimeapi.PodSandboxMetadata, labels map[string]string) (sandbox, container string) {
	r.t.Helper()
	config := &runtimeapi.PodSandboxConfig{Metadata: metadata, Labels: labels}
	sandbox, err := r.runtime.RunPodSandbox(r.t.Context(), config, "")
	if err != nil {
		r.t.Fatal(err)
	}
	image := &runtimeapi.ImageSpec{Image: "app:1"}
	if _, err := r.runtime.PullImage(r.t.Context(), image, nil, nil); err != nil {
		r.t.Fatal(err)
	}
	container, err = r.runtime.CreateContainer(r.t.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Image: image, Labels: labels,
	}, config)
	if err == nil {
		err = r.runtime.StartContainer(r.t.Context(), container)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return sandbox, container
}

// TestListsFailInMidPass: cleanup.md ND11, spec/pleg.md PI5, SI9. While the runtime's lists fail
// (at once, half-way through each reading, or now and then) or hang, the engine does not act on
// what they lack: running pods continue, leftovers stay, and the engine says why. When the lists
// work again, unwanted pods are removed.
func TestListsFailInMidPass(t *testing.T) {
	t.Parallel()
	broken := fake.Effect{Err: errors.New("bolt: database is locked")}
	var calls atomic.Int64
	for _, tc := range []struct {
		name   string
		faults []fake.Fault
		// often: a list succeeds now and then, so that work goes on.
		often bool
		// says is what Healthy reports, logs what the log gives as the reason.
		says, logs string
	}{
		{"sandboxes fail", []fake.Fault{{Match: fake.Match{Method: fake.ListPodSandbox}, Effect: broken}}, false, "bolt: database is locked", "bolt: database is locked"},
		{"containers fail after sandboxes were shown", []fake.Fault{{Match: fake.Match{Method: fake.ListContainers}, Effect: broken}}, false, "bolt: database is locked", "bolt: database is locked"},
		{"containers hang after sandboxes were shown", []fake.Fault{{Match: fake.Match{Method: fake.ListContainers}, Effect: fake.Effect{Hang: true}}}, false, "", "no answer within 30s"},
		{"every third list fails", []fake.Fault{{Match: fake.Match{Func: func(c fake.Call) bool {
			return (c.Method == fake.ListContainers || c.Method == fake.ListPodSandbox) && calls.Add(1)%3 == 0
		}}, Effect: broken}}, true, "", "bolt: database is locked"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, logged := fake.New(fake.Options{}), &lines{}
				r := newRig(t, rt, t.TempDir(), logged.configure).start()
				r.set(newPod("web"), newPod("db"))
				r.phase("uid-web", v1.PodRunning, 10*time.Second)
				r.phase("uid-db", v1.PodRunning, 10*time.Second)
				heal := rt.Inject(tc.faults...)
				r.smuggle(&runtimeapi.PodSandboxMetadata{Name: "stray", Namespace: "default", Uid: "uid-stray"}, labelled("stray", "uid-stray", "n1"))
				r.set(newPod("web")) // db is no longer wanted
				<-time.After(10 * time.Minute)
				synctest.Wait()
				for _, uid := range []string{"web", "stray"} {
					running := rt.Running(newPod(uid).UID, "main")
					if running != 1 && (uid == "web" || !tc.often) {
						t.Errorf("%d containers of %s run", running, uid)
					}
				}
				if n := starts(rt, "uid-web"); n != 1 {
					t.Errorf("web was started %d times", n)
				}
				if p := r.pod("uid-web"); p == nil || p.Status.Phase != v1.PodRunning {
					t.Errorf("web is %+v", p)
				}
				if err := r.engine.Healthy(); (err == nil) != tc.often || err != nil && !strings.Contains(err.Error(), tc.says) {
					t.Errorf("healthy: %v", err)
				}
				for _, what := range []string{"Housekeeping is incomplete", "Relist failed"} {
					// The log has at most one line in 30 s while the failure lasts.
					if n := logged.count(what, tc.logs); n == 0 || n > 21 && !tc.often {
						t.Errorf("%d lines say %q and %q", n, what, tc.logs)
					}
				}
				heal()
				r.within(time.Minute, "unwanted pods gone, and health", func() error {
					if n := rt.Running("uid-stray", "main") + rt.Running("uid-db", "main"); n != 0 {
						return fmt.Errorf("%d left-over containers run", n)
					}
					return r.engine.Healthy()
				})
				if f := rt.Facts("uid-web", "main"); f.Started != 1 || f.Running != 1 {
					t.Errorf("web: %+v", f)
				}
				if err := rt.Doubled(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestForeignSandboxesAreLeftAlone: spec/runtime.md 1.9, cleanup.md ND8. The engine does not stop,
// remove or show what others run on the same socket, whatever its labels lack or claim. If a foreign
// sandbox claims to be ours and names a folder outside ours, the engine does not touch that folder.
func TestForeignSandboxesAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, logged := fake.New(fake.Options{}), &lines{}
		parent := t.TempDir()
		outside := filepath.Join(parent, "precious")
		if err := os.Mkdir(outside, 0o700); err != nil {
			t.Fatal(err)
		}
		r := newRig(t, rt, filepath.Join(parent, "root"), logged.configure).start()
		without := func(label string) map[string]string {
			l := labelled("x", "uid-x", "n1")
			delete(l, label)
			return l
		}
		foreign := map[string]string{} // the containers, by description
		for _, x := range []struct {
			name     string
			metadata *runtimeapi.PodSandboxMetadata
			labels   map[string]string
		}{
			{"nothing at all", &runtimeapi.PodSandboxMetadata{Name: "bare", Namespace: "default", Uid: "bare"}, nil},
			{"a kubelet's", &runtimeapi.PodSandboxMetadata{Name: "k", Namespace: "default", Uid: "uid-k"}, labelled("k", "uid-k", "")},
			{"another engine's", &runtimeapi.PodSandboxMetadata{Name: "o", Namespace: "default", Uid: "uid-o"}, labelled("o", "uid-o", "n2")},
			{"another engine's pod of our name and UID", &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "uid-web", Attempt: 7}, labelled("web", "uid-web", "n2")},
			{"without a UID", &runtimeapi.PodSandboxMetadata{Name: "x", Namespace: "default", Uid: "1"}, without(runtime.LabelPodUID)},
			{"without a name", &runtimeapi.PodSandboxMetadata{Name: "x", Namespace: "default", Uid: "2"}, without(runtime.LabelPodName)},
			{"without a namespace", &runtimeapi.PodSandboxMetadata{Name: "x", Namespace: "default", Uid: "3"}, without(runtime.LabelPodNamespace)},
		} {
			_, foreign[x.name] = r.smuggle(x.metadata, x.labels)
		}
		liar, _ := r.smuggle(&runtimeapi.PodSandboxMetadata{Name: "liar", Namespace: "default", Uid: "../../precious"}, labelled("liar", "../../precious", "n1"))
		r.set(newPod("web"))
		r.phase("uid-web", v1.PodRunning, 10*time.Second)
		<-time.After(10 * time.Minute) // housekeeping and garbage collection
		r.set()
		r.within(time.Minute, "our pod gone", func() error {
			if r.pod("uid-web") != nil {
				return errors.New("still known")
			}
			return nil
		})
		<-time.After(5 * time.Minute)
		synctest.Wait()
		for name, id := range foreign {
			s, err := rt.ContainerStatus(t.Context(), id, false)
			if err != nil || s.Status.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
				t.Errorf("%s: %v, %v", name, s.GetStatus().GetState(), err)
			}
		}
		for _, m := range []fake.Method{fake.StopContainer, fake.RemoveContainer, fake.ExecSync} {
			for _, call := range rt.Calls(fake.Match{Method: m}) {
				for name, id := range foreign {
					if call.ContainerID == id {
						t.Errorf("%s of %s", m, name)
					}
				}
			}
		}
		if pods := r.engine.Pods(); len(pods) != 0 {
			t.Errorf("%d pods are shown", len(pods))
		}
		for _, uid := range []string{"uid-k", "uid-o", "bare"} {
			if e, known := r.engine.Explain(newPod(uid).UID); known {
				t.Errorf("explained: %+v", e)
			}
		}
		if _, err := os.Stat(outside); err != nil {
			t.Errorf("a folder outside of the engine's: %v", err)
		}
		if logged.count("kill orphan", "default/liar") != 1 || logged.count("../../precious", "contains a slash") == 0 {
			t.Error("no event tells of the false sandbox")
		}
		left, err := rt.ListPodSandbox(t.Context(), &runtimeapi.PodSandboxFilter{Id: liar})
		if err != nil || len(left) != 0 {
			t.Errorf("the liar: %v, %v", left, err)
		}
		if all, err := rt.ListPodSandbox(t.Context(), nil); err != nil || len(all) != len(foreign) {
			t.Errorf("%d sandboxes are left, %v", len(all), err)
		}
	})
}
