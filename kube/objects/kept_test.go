package objects_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/kube/objects"
	"github.com/podwright/podwright/kube/offline"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// disk is a folder with a cache, over the lives of an agent.
type disk struct {
	t    *testing.T
	dir  string
	most int64 // bytes; 0: the default
}

// boot opens the cache as an agent does at its start, and runs it until the returned function is called.
func (d disk) boot() (c *offline.Cache, end func()) {
	d.t.Helper()
	c, err := offline.Open(offline.Options{Dir: d.dir, MaxBytes: d.most})
	if err != nil {
		d.t.Fatal(err)
	}
	return c, runs(d.t, c.Run)
}

func newDisk(t *testing.T) disk { return disk{t: t, dir: t.TempDir()} }

func with(c *offline.Cache, ttl time.Duration) func(*objects.Options) {
	return func(o *objects.Options) { o.Cache, o.TTL = c, ttl }
}

// life runs a store on the disk until the returned function is called, as an agent does from its start to a power cut.
func (d disk) life(a *api, ttl time.Duration) (r *rig, cut func()) {
	d.t.Helper()
	cache, end := d.boot()
	r, stop := newRig(d.t, a, with(cache, ttl))
	return r, func() { d.t.Helper(); stop(); end() }
}

var errAway = errors.New("connection refused")

// KO8: what the API server said before a restart is there without it, for pods that are followed and for those that the engine
// remembers, watched or with a TTL. Its first answer counts: other content, or none, is told and read; the same is not told.
func TestCacheStandsInUntilTheFirstAnswer(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"watched": 0, "TTL": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, a := newDisk(t), newAPI(t, configMap("same", "a", "1"), configMap("other", "b", "2"), configMap("gone", "c", "3"))
				all := podWith("u1", "same", "other", "gone")
				r, cut := d.life(a, ttl)
				r.Follow(all)
				for name, text := range map[string]string{"same": "a", "other": "b", "gone": "c"} {
					r.want(name, text)
				}
				cut()

				a.refuse(errAway)
				r, cut = d.life(a, ttl)
				r.want("same", "a") // not followed yet: the engine remembers the pod
				<-time.After(time.Hour)
				r.want("other", "b")
				r.want("gone", "c")
				if got := r.text("never"); !strings.Contains(got, "refused") {
					t.Errorf("an object that was never read: %s", got)
				}
				r.changes()
				a.put(configMap("other", "new", "4"))
				a.remove("gone")
				a.refuse(nil)
				r.Follow(all)
				<-time.After(time.Minute)
				r.want("same", "a")
				r.want("other", "new")
				if _, err := r.GetConfigMap(t.Context(), "ns", "gone"); !cri.IsNotFound(err) {
					t.Errorf("an object that is gone: %v", err)
				}
				if told := r.changes(); ttl == 0 && (!strings.Contains(told, "ConfigMap other") || !strings.Contains(told, "ConfigMap gone") || strings.Contains(told, "same")) {
					t.Errorf("told %q", told)
				}
				a.refuse(errAway)
				<-time.After(time.Hour)
				r.want("other", "new")
				cut()
				r, cut = d.life(a, ttl)
				r.want("other", "new")
				if got := r.text("gone"); !strings.Contains(got, "refused") {
					t.Errorf("an object that was gone: %s", got)
				}
				cut()
			})
		})
	}
}

// KO8: an API server that never answers delays a pod by 2 s, however many objects it has, and the next pods not at all.
func TestSilentAPIServerDelaysOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDisk(t), newAPI(t)
		var names []string
		for i := range 50 {
			names = append(names, fmt.Sprint("c", i))
			a.put(configMap(names[i], fmt.Sprint(i), "1"))
		}
		pod := podWith("u1", names...)
		r, cut := d.life(a, 0)
		r.Follow(pod)
		for i, name := range names {
			r.want(name, fmt.Sprint(i))
		}
		cut()
		for _, followed := range []bool{true, false} {
			cache, end := d.boot()
			r, stop := newRig(t, a, with(cache, 0), silent)
			if followed {
				r.Follow(pod)
			}
			began := time.Now()
			for i, name := range names {
				r.want(name, fmt.Sprint(i))
			}
			if took := time.Since(began); took != 2*time.Second {
				t.Errorf("followed: %t: it took %v", followed, took)
			}
			stop()
			end()
		}
	})
}

// KO8: a caller that waits no longer says nothing about the API server, which the next caller asks first.
func TestCallerThatLeavesIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDisk(t), newAPI(t, configMap("a", "a", "1"), configMap("b", "b", "1"))
		r, cut := d.life(a, 0)
		r.Follow(podWith("u1", "a", "b"))
		r.want("a", "a")
		r.want("b", "b")
		cut()
		cache, end := d.boot()
		defer end()
		r, stop := newRig(t, a, with(cache, 0), silent)
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if c, err := r.GetConfigMap(ctx, "ns", "a"); err != nil || c.Data["key"] != "a" {
			t.Errorf("%v, %v", c, err)
		}
		began := time.Now()
		r.want("b", "b")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("the server was asked for %v", took)
		}
	})
}

// silent has a store ask an API server that never answers.
func silent(o *objects.Options) {
	o.Client = kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://api", QPS: -1, Transport: silence{}})
}

// silence is a network that loses everything.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// KO8: a pod that got an object from the cache is not told of a first answer that says the same.
func TestStandInThatIsRightIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDisk(t), newAPI(t, configMap("same", "a", "1"))
		pod := podWith("u1", "same")
		r, cut := d.life(a, 0)
		r.Follow(pod)
		r.want("same", "a")
		cut()
		a.refuse(errAway)
		r, cut = d.life(a, 0)
		r.Follow(pod)
		<-time.After(10 * time.Minute)
		r.want("same", "a")
		r.changes()
		a.refuse(nil)
		<-time.After(time.Minute)
		r.want("same", "a")
		if told := r.changes(); told != "" {
			t.Errorf("told %q", told)
		}
		cut()
	})
}

// KO8: an object goes with the last pod that refers to it, also if that pod was deleted while there was no agent: then with what
// Retain is told.
func TestCachedObjectGoesWithItsLastPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDisk(t), newAPI(t, configMap("shared", "a", "1"), configMap("single", "b", "1"))
		cache, end := d.boot()
		r, stop := newRig(t, a, with(cache, 0))
		r.Follow(podWith("u1", "shared", "single"))
		r.Follow(podWith("u2", "shared"))
		r.want("shared", "a")
		r.want("single", "b")
		r.Forget("u1")
		if r.InUse(objects.Object{Kind: "ConfigMap", Namespace: "ns", Name: "single"}) {
			t.Error("an object that no pod refers to is in use")
		}
		a.put(configMap("shared", "c", "2"))
		r.changes()
		if got := cache.Entries(offline.ConfigMap); len(got) != 1 || got[0].Name != "shared" {
			t.Errorf("entries %v", got)
		}
		stop()
		end()

		cache, end = d.boot()
		r, stop = newRig(t, a, with(cache, 0))
		for range 2 {
			cache.Retain(func(e offline.Entry) bool {
				return r.InUse(objects.Object{Kind: e.Kind, Namespace: e.Namespace, Name: e.Name})
			})
		}
		if got := cache.Entries(offline.ConfigMap); len(got) != 0 {
			t.Errorf("entries %v", got)
		}
		stop()
		end()
	})
}

// KO8: what is kept of a secret is what pods see of it, and no more; KO9: no log has it.
func TestCachedSecretHasNoAnnotations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := &v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", UID: "u", ResourceVersion: "1", Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "canary-1"}},
			Data:       map[string][]byte{"key": []byte("canary-2")}, Type: v1.SecretTypeOpaque,
		}
		d, a := newDisk(t), newAPI(t, made)
		pod := podWith("u1")
		pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "s"}}
		r, cut := d.life(a, 0)
		r.Follow(pod)
		if _, err := r.GetSecret(t.Context(), "ns", "s"); err != nil {
			t.Fatal(err)
		}
		cut()
		a.refuse(errAway)
		r, cut = d.life(a, 0)
		got, err := r.GetSecret(t.Context(), "ns", "s")
		if err != nil || string(got.Data["key"]) != "canary-2" || got.Type != v1.SecretTypeOpaque || got.UID != "u" || got.Annotations != nil {
			t.Errorf("%v, %v", got, err)
		}
		cut()
		r.mu.Lock()
		defer r.mu.Unlock()
		if text := r.logs.String(); strings.Contains(text, "canary") || !strings.Contains(text, "as it was before the restart") {
			t.Errorf("logs: %s", text)
		}
	})
}

// KO8: 100 pods that the engine remembers, with a config map each, start without an API server.
func TestCrowdStartsOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		d, a, root := newDisk(t), newAPI(t), t.TempDir()
		var all []*v1.Pod
		for i := range n {
			name := fmt.Sprint("c", i)
			a.put(configMap(name, fmt.Sprint("text", i), "1"))
			pod := podWith("", name)
			pod.Name, pod.UID = name, types.UID(name)
			pod.Spec.Containers[0].Image, pod.Spec.RestartPolicy = "example.com/app:1", v1.RestartPolicyAlways
			all = append(all, pod)
		}
		start := func(boot string, deliver bool) (engine *podwright.Engine, rt *fake.Runtime, cut func()) {
			cache, end := d.boot()
			o := objects.Options{Client: a, Cache: cache}
			if !deliver {
				silent(&o)
			}
			store, err := objects.New(o)
			if err != nil {
				t.Fatal(err)
			}
			rt = fake.New(fake.Options{})
			pods := source.NewChannel(source.ChannelOptions{Name: "api", NodeName: "n1"})
			config := podwright.Config{Runtime: rt, Images: rt, Sources: []syncloop.Source{pods}, RootDir: root, Node: podwright.Node{Name: "n1", BootID: boot}}
			config.Pods.Objects, config.Checkpoints.Reserve, config.Admission.MaxPods = store, -1, n
			if engine, err = podwright.New(config); err != nil {
				t.Fatal(err)
			}
			stop := runs(t, engine.Run)
			if deliver {
				for _, pod := range all {
					store.Follow(pod)
				}
				if err := pods.Set(t.Context(), all); err != nil {
					t.Fatal(err)
				}
			}
			return engine, rt, func() { stop(); end() }
		}
		running := func(engine *podwright.Engine) func() string {
			return func() string {
				count := 0
				for _, pod := range engine.Pods() {
					if pod.Status.Phase == v1.PodRunning && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Running != nil {
						count++
					}
				}
				return fmt.Sprint(count)
			}
		}
		engine, _, cut := start("boot-1", true)
		within(t, time.Minute, "first boot", "100", running(engine))
		cut()
		began := time.Now()
		engine, rt, cut := start("boot-2", false) // the machine's containers are gone
		within(t, 30*time.Second, "KO8", "100", running(engine))
		t.Logf("%d pods run %v after a boot without an API server", n, time.Since(began))
		if list, err := rt.ListContainers(t.Context(), nil); err != nil || len(list) != n {
			t.Errorf("%d containers, %v", len(list), err)
		}
		cut()
	})
}
