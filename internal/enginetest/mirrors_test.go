package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/mirror"
)

// apiSource feeds the pods of an API in memory to an engine, as an adapter for the list and watch
// of a real API does: it delivers the full set after every change.
type apiSource struct {
	api *mirror.FakeClient
	// down: the watch is broken; nil means never.
	down *atomic.Bool
}

func (s apiSource) Name() string                    { return syncloop.SourceAPI }
func (s apiSource) Precedence() syncloop.Precedence { return syncloop.PrecedenceAPI }

func (s apiSource) Run(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error {
	for {
		pods, changed := s.api.Pods()
		if s.down != nil && s.down.Load() {
			return errors.New("the watch is broken") // the loop tries again
		}
		if err := deliver(ctx, pods); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestMirrorChangesNoStaticPod: MC1, MC4-MC7, PM4, PM6, edge cases 21 and 22. A static pod gets a
// mirror, which comes back through the API's source; whatever happens to it, the static pod
// continues to run.
func TestMirrorChangesNoStaticPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, rt := &mirror.FakeClient{}, byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 5 * time.Second}}})
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}}
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Sources = append(c.Sources, apiSource{api: api})
			c.Mirrors = mirror.Options{Client: api, Node: func() *v1.Node { return node }}
		}).start()
		mirrored := func() error {
			pods, _ := api.Pods()
			if len(pods) != 1 || pods[0].Annotations[podinfo.AnnotationMirror] == "" || pods[0].DeletionTimestamp != nil {
				return fmt.Errorf("%d pods at the API", len(pods))
			}
			return nil
		}
		api.Fail(errors.New("no route"))
		r.set(newPod("web"))
		r.phase("uid-web", v1.PodRunning, 10*time.Second) // the API does not hold it up
		api.Fail(nil)
		r.within(time.Minute, "a mirror", mirrored)
		<-time.After(5 * time.Second)
		if n := len(r.engine.Pods()); n != 1 {
			t.Errorf("%d pods, a mirror is none (SI6)", n)
		}

		pods, _ := api.Pods()
		if err := api.Delete(t.Context(), pods[0].Namespace, pods[0].Name, pods[0].UID); err != nil {
			t.Fatal(err)
		}
		r.within(2*time.Second, "the mirror back within one round", mirrored)

		r.set() // the static pod goes; its mirror stays until it has ended
		for range 45 {
			<-time.After(100 * time.Millisecond)
			synctest.Wait()
			if err := mirrored(); err != nil || rt.Running("uid-web", "main") != 1 {
				t.Fatalf("edge case 22: while the pod ends: %v, %d containers run", err, rt.Running("uid-web", "main"))
			}
		}
		r.within(time.Minute, "the orphaned mirror gone (MC7)", func() error {
			if pods, _ := api.Pods(); len(pods) > 0 {
				return errors.New("still there")
			}
			return nil
		})
		r.empty(time.Minute)
		if starts(rt, "uid-web") != 1 {
			t.Errorf("%d starts", starts(rt, "uid-web"))
		}
	})
}

// TestBrokenWatchRemovesNothing: A3, A4, edge case 16, for the adapter of an API. A new UID under
// an old name is a new pod. A broken watch removes nothing, and the next full set removes, once,
// what is gone.
func TestBrokenWatchRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		api, rt := &mirror.FakeClient{}, fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Sources = []syncloop.Source{apiSource{api, &down}} }).start()
		web, db := newPod("web"), newPod("db")
		api.Put(web)
		api.Put(db)
		r.phase("uid-web", v1.PodRunning, 10*time.Second)
		r.phase("uid-db", v1.PodRunning, 10*time.Second)
		again := newPod("web")
		again.UID = "uid-web-2"
		api.Put(again)
		r.phase("uid-web-2", v1.PodRunning, time.Minute)
		r.within(time.Minute, "the old one gone", func() error {
			if r.pod("uid-web") != nil {
				return errors.New("still known")
			}
			return nil
		})
		down.Store(true)
		if err := api.Delete(t.Context(), "default", "db", ""); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Minute)
		if rt.Running("uid-db", "main") != 1 || rt.Running("uid-web-2", "main") != 1 {
			t.Error("a broken watch removed a pod")
		}
		if err := r.problems(); err == nil || !strings.Contains(err.Error(), "source api: the watch is broken") {
			t.Errorf("healthy: %v", err)
		}
		down.Store(false)
		r.within(time.Minute, "db gone", func() error {
			if rt.Running("uid-db", "main") != 0 {
				return errors.New("still runs")
			}
			return nil
		})
		<-time.After(time.Minute)
		if starts(rt, "uid-db") != 1 || rt.Running("uid-web-2", "main") != 1 {
			t.Errorf("db was started %d times", starts(rt, "uid-db"))
		}
		if stops := rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: "uid-db"}); len(stops) != 1 {
			t.Errorf("db was stopped %d times", len(stops))
		}
		if err := r.problems(); err != nil {
			t.Errorf("after the relist: %v", err)
		}
	})
}

// mirrorSink is a sink that reads and writes the mirror pods of an API.
type mirrorSink struct{ api *mirror.FakeClient }

func (s mirrorSink) Name() string { return "api" }

func (s mirrorSink) ReadPod(_ context.Context, ref status.PodRef) (*v1.Pod, error) {
	pods, _ := s.api.Pods()
	for _, p := range pods {
		if p.Namespace == ref.Namespace && p.Name == ref.Name {
			return p, nil
		}
	}
	return nil, nil
}

func (s mirrorSink) Store(ctx context.Context, u status.Update) (status.StoreResult, error) {
	pod, _ := s.ReadPod(ctx, u.PodRef)
	if pod == nil || pod.UID != u.UID {
		return status.Gone, nil
	}
	told := pod.DeepCopy()
	u.Status.DeepCopyInto(&told.Status)
	s.api.Put(told)
	return status.Stored, nil
}

// TestMirrorIsThereBeforeItsStaticPod: PM6, status.md 8.2: after a restart, before a static pod's own source answers,
// the API may name a mirror pod from a later life than the last one reported. The mirror still gets the status.
func TestMirrorIsThereBeforeItsStaticPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, rt, root := &mirror.FakeClient{}, fake.New(fake.Options{}), t.TempDir()
		self := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}}
		start := func() *rig {
			return newRig(t, rt, root, func(c *podwright.Config) {
				c.Sources = append(c.Sources, apiSource{api: api})
				c.Mirrors = mirror.Options{Client: api, Node: func() *v1.Node { return self }}
				c.Observe.Sinks = append(c.Observe.Sinks, mirrorSink{api})
			}).start()
		}
		shown := func() error {
			pods, _ := api.Pods()
			if len(pods) != 1 || pods[0].Status.Phase != v1.PodRunning {
				return fmt.Errorf("at the API: %v", pods)
			}
			return nil
		}
		r := start()
		r.set(newPod("web"))
		r.within(time.Minute, "the mirror's status", shown)
		r.stop()

		pods, _ := api.Pods()
		next := pods[0].DeepCopy()
		next.UID, next.Status = "uid-next", v1.PodStatus{}
		api.Put(next)
		r = start()
		<-time.After(2 * time.Second)
		r.set(newPod("web"))
		r.within(time.Minute, "the status of the mirror's next life", shown)
		if n := rt.Facts("uid-web", "main").Started; n != 1 {
			t.Errorf("%d starts", n)
		}
	})
}
