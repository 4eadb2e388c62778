package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/mirror"
)

// uidOf returns the UID of the desired pod with this name, "" if there is none.
func (r *rig) uidOf(name string) types.UID {
	for _, p := range r.engine.Pods() {
		if p.Name == name && p.DeletionTimestamp == nil {
			return p.UID
		}
	}
	return ""
}

// gone waits until the engine no longer knows a pod.
func (r *rig) gone(uid types.UID, limit time.Duration) {
	r.t.Helper()
	r.within(limit, string(uid)+" gone", func() error {
		if r.pod(uid) != nil || r.runtime.Running(uid, "main") != 0 {
			return errors.New(r.explain(uid))
		}
		return nil
	})
}

// TestPodFirstNamedDeletedNeverStarts: M5, edge case 2. If a pod is already being deleted when its
// source first names it, it ends: nothing is made for it, and what still runs of it stops with the
// grace of the deletion.
func TestPodFirstNamedDeletedNeverStarts(t *testing.T) {
	for _, ran := range []bool{false, true} {
		t.Run(fmt.Sprintf("it ran before: %v", ran), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, root, api := byContainer(map[string]fake.Script{"main": {IgnoreTERM: true}}), t.TempDir(), &mirror.FakeClient{}
				configure := func(c *podwright.Config) { c.Sources = []syncloop.Source{apiSource{api: api}} }
				pod := newPod("web")
				if ran {
					first := newRig(t, rt, root, configure).start()
					api.Put(pod)
					first.phase(pod.UID, v1.PodRunning, 10*time.Second)
					first.stop()
				}
				sandboxes := rt.CallCount(fake.RunPodSandbox)
				deleted := pod.DeepCopy()
				deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](7)
				api.Put(deleted)
				api.Put(newPod("other"))
				r := newRig(t, rt, root, configure).start()
				took := r.within(30*time.Second, "the end of its life", func() error {
					e, _ := r.engine.Explain(pod.UID)
					if e.Worker == nil || !e.Worker.State.Finished() || e.Phase != v1.PodFailed {
						return errors.New(r.explain(pod.UID))
					}
					return nil
				})
				if ran != (took > 6*time.Second) || took > 8*time.Second {
					t.Errorf("finished after %v, want the grace of 7 s if there was something to stop", took)
				}
				r.phase("uid-other", v1.PodRunning, 10*time.Second)
				if n := rt.CallCount(fake.RunPodSandbox) - sandboxes; n != 1 || rt.Facts(pod.UID, "main").Running != 0 {
					t.Errorf("%d sandboxes were made, one of them for the other pod", n)
				}
				if phases, _ := r.sink.of(pod.UID); len(phases) == 0 || phases[len(phases)-1] != v1.PodFailed {
					t.Errorf("sinks were told %v", phases)
				}
				if err := api.Delete(t.Context(), "default", "web", ""); err != nil {
					t.Fatal(err)
				}
				r.gone(pod.UID, 10*time.Second)
			})
		})
	}
}

// TestEditedManifestIsAnotherPod: D1, edge case 9. Different content in the same file is a different
// pod: the old one is stopped with its grace, and the new one waits until the name is free.
func TestEditedManifestIsAnotherPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 3 * time.Second}}})
		f := newFed(t, rt, t.TempDir(), t.TempDir())
		f.change("web.yaml", text(manifestOf("web", "app:1")))
		f.within(10*time.Second, "the pod", func() error { return phaseIs(f.rig, f.uidOf("web-n1"), v1.PodRunning) })
		first := f.uidOf("web-n1")
		f.change("web.yaml", text(manifestOf("web", "app:2")))
		f.within(10*time.Second, "the new pod", func() error {
			if uid := f.uidOf("web-n1"); uid == first || uid == "" {
				return fmt.Errorf("UID %q", uid)
			}
			return nil
		})
		second := f.uidOf("web-n1")
		if e, _ := f.engine.Explain(second); e.Worker == nil || !strings.Contains(e.Worker.WaitingFor, string(first)) {
			t.Errorf("what it waits for is not told: %+v", e.Worker)
		}
		f.phase(second, v1.PodRunning, 20*time.Second)
		stop, run := rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: first}), rt.Calls(fake.Match{Method: fake.RunPodSandbox, PodUID: second})
		if len(stop) != 1 || len(run) != 1 || run[0].Start.Before(stop[0].End) || stop[0].End.Sub(stop[0].Start) != 3*time.Second {
			t.Errorf("stopped by %+v, started by %+v", stop, run)
		}
		f.gone(first, 10*time.Second)
		f.change("web.yaml", os.Remove)
		f.empty(time.Minute)
	})
}

// TestEditedManifestWithUIDIsTheSamePod: D9, edge case 10. An edited manifest with its own UID is
// the same pod: its container is replaced in the same sandbox. If the manifest is removed, and
// restored while the pod terminates, the pod ends and lives again.
func TestEditedManifestWithUIDIsTheSamePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 3 * time.Second}}})
		f := newFed(t, rt, t.TempDir(), t.TempDir())
		runs := func(image string, started int) func() error {
			return func() error {
				p := f.pod("uid-web")
				if p == nil || len(p.Status.ContainerStatuses) != 1 || p.Status.ContainerStatuses[0].State.Running == nil || p.Spec.Containers[0].Image != image {
					return errors.New(f.explain("uid-web"))
				}
				if facts := rt.Facts("uid-web", "main"); facts.Started != started || facts.MaxRunning != 1 {
					return fmt.Errorf("%+v", facts)
				}
				return nil
			}
		}
		f.change("web.yaml", text(fixed("web", "app:1")))
		f.within(10*time.Second, "the pod", runs("app:1", 1))
		f.change("web.yaml", text(fixed("web", "app:2")))
		f.within(20*time.Second, "the new image", runs("app:2", 2))
		if n := len(rt.Calls(fake.Match{Method: fake.RunPodSandbox, PodUID: "uid-web"})); n != 1 {
			t.Errorf("%d sandboxes for one pod", n)
		}
		for operation, want := range map[string]int64{"UPDATE": 1, "REMOVE": 0} {
			if n := f.counted.get("podwright_syncloop_operations_total", "operation="+operation+",source=file"); n != want {
				t.Errorf("%d times %s", n, operation)
			}
		}
		f.change("web.yaml", os.Remove)
		<-time.After(2 * time.Second)
		f.change("web.yaml", text(fixed("web", "app:2")))
		f.within(30*time.Second, "the second life", runs("app:2", 3))
		if n := f.counted.get("podwright_syncloop_operations_total", "operation=REMOVE,source=file"); n != 1 {
			t.Errorf("%d times REMOVE", n)
		}
	})
}

// weaker is a source from which others take names.
type weaker struct{ syncloop.Source }

// Precedence returns that of a file source.
func (weaker) Precedence() syncloop.Precedence { return syncloop.PrecedenceFile }

// TestOnePodPerName: M4, F5, edge cases 8 and 13. If two manifests have one name, the later file
// wins; if two sources do, the one with precedence wins. An event says why the other pod does not
// run, and it runs as soon as the name is free. Two pods with one name never run at once.
func TestOnePodPerName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 3 * time.Second}}})
		folder := t.TempDir()
		named := func(uid, image string) string { return manifestOf("web", image, "uid: "+uid) }
		f := newFed(t, rt, t.TempDir(), folder)
		f.change("2.yaml", text(named("uid-2", "app:2")))
		f.phase("uid-2", v1.PodRunning, 10*time.Second)
		f.change("1.yaml", text(named("uid-1", "app:1")))
		<-time.After(time.Minute)
		f.toldOnce("n1", "FailedValidation", "manifest "+f.path("1.yaml"), "pod default/web-n1 is taken from "+f.path("2.yaml"), "no pod is started from it")
		f.runsOn("uid-2")
		f.only("uid-2")
		f.change("2.yaml", os.Remove)
		f.phase("uid-1", v1.PodRunning, 30*time.Second)
		f.within(time.Second, "no problem", func() error { return problemsOf(f.file) })
		f.runsOn("uid-1")
		oneAtATime(t, rt, "uid-2", "uid-1")
	})
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 3 * time.Second}}})
		file, api, counted := &frail{name: "file-like", pods: []*v1.Pod{withUID(newPod("web"), "uid-low")}, then: make(chan func(context.Context) error)}, newPod("web"), &counters{}
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Sources, c.Observe.MeterProvider = append(c.Sources, weaker{file}), counted
		}).start()
		r.set()
		r.phase("uid-low", v1.PodRunning, 10*time.Second)
		r.set(api)
		r.phase(api.UID, v1.PodRunning, 30*time.Second)
		if said := r.events.said("web FailedValidation"); len(said) != 1 ||
			said[0] != `pod default/web (UID uid-low) of source "file-like" is left out: its full name belongs to a pod (UID uid-web) of source "channel"` {
			t.Errorf("events %q", said)
		}
		if n := counted.get("podwright_syncloop_refused_pods_total", "source=file-like"); n != 1 {
			t.Errorf("counted %d times", n)
		}
		oneAtATime(t, rt, "uid-low", api.UID)
		r.set()
		r.within(30*time.Second, "the other one back", func() error {
			if facts := rt.Facts("uid-low", "main"); facts.Started != 2 || facts.Running != 1 {
				return fmt.Errorf("%+v", facts)
			}
			return nil
		})
	})
}

// oneAtATime checks that a pod began only after the other had stopped.
func oneAtATime(t *testing.T, rt *fake.Runtime, before, after types.UID) {
	t.Helper()
	stop, run := rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: before}), rt.Calls(fake.Match{Method: fake.RunPodSandbox, PodUID: after})
	if len(stop) != 1 || len(run) != 1 || run[0].Start.Before(stop[0].End) {
		t.Errorf("%s stopped by %+v, %s started by %+v", before, stop, after, run)
	}
}

// phaseIs returns an error if a pod is not in this phase.
func phaseIs(r *rig, uid types.UID, want v1.PodPhase) error {
	if p := r.pod(uid); p == nil || p.Status.Phase != want {
		return errors.New(r.explain(uid))
	}
	return nil
}

// withUID returns the pod under another UID.
func withUID(p *v1.Pod, uid types.UID) *v1.Pod {
	p.UID = uid
	return p
}
