package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func static(name, hash string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: types.UID(hash),
		Annotations: map[string]string{podinfo.AnnotationHash: hash, podinfo.AnnotationSource: "file", "mine": "x"},
	}}
}

func newNode(edits ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}}
	for _, e := range edits {
		e(n)
	}
	return n
}

func leaving(n *v1.Node) { now := metav1.Now(); n.DeletionTimestamp = &now }

// TestOf: MC1. A mirror pod is a copy that has its own annotations and its hash, and
// whose owner is the node.
func TestOf(t *testing.T) {
	pod := static("web", "h1")
	m, err := Of(pod, newNode())
	if err != nil {
		t.Fatal(err)
	}
	if m.UID != "" || m.Annotations[podinfo.AnnotationMirror] != "h1" || m.Annotations["mine"] != "x" || pod.Annotations[podinfo.AnnotationMirror] != "" {
		t.Errorf("mirror %v, static %v", m.ObjectMeta, pod.Annotations)
	}
	if len(m.OwnerReferences) != 1 || m.OwnerReferences[0].UID != "node-uid" || m.OwnerReferences[0].Kind != "Node" || !*m.OwnerReferences[0].Controller {
		t.Errorf("owners %v", m.OwnerReferences)
	}
	if _, err := Of(pod, nil); !errors.Is(err, errNodeUnknown) {
		t.Errorf("unknown node: %v", err)
	}
}

// TestDecide: MC4, edge case 23.
func TestDecide(t *testing.T) {
	pod := static("web", "h1")
	right, _ := Of(pod, newNode())
	right.UID = "m"
	edited := func(f func(*v1.Pod)) *v1.Pod { p := right.DeepCopy(); f(p); return p }
	for name, test := range map[string]struct {
		mirror *v1.Pod
		node   *v1.Node
		want   step
	}{
		"none":                    {nil, newNode(), step{create: true}},
		"the right one":           {right, newNode(), step{}},
		"being deleted":           {edited(func(p *v1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }), newNode(), step{delete: true, create: true}},
		"another content":         {edited(func(p *v1.Pod) { p.Annotations[podinfo.AnnotationMirror] = "h0" }), newNode(), step{delete: true, create: true}},
		"another namespace":       {edited(func(p *v1.Pod) { p.Namespace = "x" }), newNode(), step{delete: true, create: true}},
		"node unknown":            {nil, nil, step{wait: true}},
		"node without UID":        {nil, &v1.Node{}, step{wait: true}},
		"node deleted":            {nil, newNode(leaving), step{wait: true}},
		"wrong one, node deleted": {edited(func(p *v1.Pod) { p.Annotations[podinfo.AnnotationMirror] = "h0" }), newNode(leaving), step{delete: true, wait: true}},
	} {
		if got := decide(pod, test.mirror, test.node); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// rig is a reconciler in a bubble with its API.
type rig struct {
	*Reconciler
	api  *FakeClient
	node atomic.Pointer[v1.Node]
}

func start(t *testing.T, node *v1.Node) *rig {
	t.Helper()
	x := &rig{api: &FakeClient{}}
	x.node.Store(node)
	var err error
	if x.Reconciler, err = New(Options{Client: x.api, Node: x.node.Load}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return x
}

// has compares what the API has, as "name hash".
func (x *rig) has(t *testing.T, what string, want ...string) []*v1.Pod {
	t.Helper()
	synctest.Wait()
	pods, _ := x.api.Pods()
	got := []string{}
	for _, p := range pods {
		got = append(got, p.Name+" "+p.Annotations[podinfo.AnnotationMirror])
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
	return pods
}

// TestReconcile: MC1, MC4, MC5, edge case 21. A mirror pod is created, created again
// after another client deletes it, and replaced when the content changes.
func TestReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t, newNode())
		pod := static("web", "h1")
		x.Want(pod, nil)
		made := x.has(t, "made", "web h1")
		x.Want(pod, nil) // the watch is late: it exists with the same hash (MC1)
		if again := x.has(t, "still", "web h1"); again[0].UID != made[0].UID {
			t.Error("it was made again")
		}
		if !x.Delete(t.Context(), "default", "web", made[0].UID) {
			t.Error("not deleted")
		}
		x.has(t, "deleted by another client")
		x.Want(pod, nil)
		second := x.has(t, "back", "web h1")
		x.Want(static("web", "h2"), second[0])
		x.has(t, "a new content", "web h2")
		x.Want(static("web", "h3"), nil) // the watch has not shown h2 yet
		<-time.After(2 * time.Second)
		x.has(t, "a stale one in the way goes", "web h3")
	})
}

// TestNodeComesLate: MC1, MC6, section 2. Mirror pods wait for their node, and are made at
// once when it is known; a node that is being deleted gets none (edge case 23).
func TestNodeComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t, nil)
		x.Want(static("a", "ha"), nil)
		x.Want(static("b", "hb"), nil)
		<-time.After(time.Hour)
		x.has(t, "no node")
		x.node.Store(newNode())
		x.NodeKnown()
		x.has(t, "all at once", "a ha", "b hb")

		x.node.Store(newNode(leaving))
		x.Want(static("c", "hc"), nil)
		<-time.After(time.Hour)
		x.has(t, "the node is going", "a ha", "b hb")
		x.node.Store(newNode())
		<-time.After(nodePollMax)
		x.has(t, "seen without a call", "a ha", "b hb", "c hc")
	})
}

// TestAPIFails: MC2, MC4. Failed calls of the API are retried, and foreign pods are never touched.
func TestAPIFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t, newNode())
		x.api.Fail(errors.New("no route"))
		x.Want(static("a", "ha"), nil)
		<-time.After(time.Minute)
		x.has(t, "down")
		if x.Delete(t.Context(), "default", "a", "") {
			t.Error("deleted at an API that is down")
		}
		x.api.Fail(nil)
		<-time.After(retryMax)
		pods := x.has(t, "up", "a ha")
		// MC2: a missing pod, or one with another UID, is no error.
		if x.Delete(t.Context(), "default", "b", "") || x.Delete(t.Context(), "default", "a", "other") {
			t.Error("deleted what was not meant")
		}
		x.has(t, "still there", "a ha")
		if !x.Delete(t.Context(), "default", "a", pods[0].UID) {
			t.Error("not deleted")
		}

		// A foreign pod with this name stays; the mirror waits.
		x.api.Put(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine", UID: "u"}})
		x.Want(static("mine", "h"), nil)
		<-time.After(time.Minute)
		x.has(t, "not ours", "mine ")
		x.Forget("h")
	})
}

// TestNoClient: MC3.
func TestNoClient(t *testing.T) {
	r, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Want(static("a", "ha"), nil)
	if uid, w, at := r.next(time.Now()); w != nil || !at.IsZero() || uid != "" {
		t.Error("something is to be done")
	}
	if r.Delete(t.Context(), "default", "a", "") {
		t.Error("deleted")
	}
	if _, err := New(Options{Client: &FakeClient{}}); err == nil {
		t.Error("a client without a node was accepted")
	}
}

// hangingAPI is an API that does not answer about some pods.
type hangingAPI struct {
	hangs   func(what, name string) bool
	created map[string]time.Time
	deleted map[string]time.Time
}

func (h *hangingAPI) call(ctx context.Context, what, name string, done map[string]time.Time) error {
	if h.hangs(what, name) {
		<-ctx.Done()
		return ctx.Err()
	}
	done[name] = time.Now()
	return nil
}

func (h *hangingAPI) Create(ctx context.Context, pod *v1.Pod) error {
	return h.call(ctx, "create", pod.Name, h.created)
}

func (h *hangingAPI) Get(context.Context, string, string) (*v1.Pod, error) { return nil, ErrNotFound }

func (h *hangingAPI) Delete(ctx context.Context, _, name string, _ types.UID) error {
	return h.call(ctx, "delete", name, h.deleted)
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// withHangingAPI runs a reconciler during f.
func withHangingAPI(t *testing.T, hangs func(what, name string) bool, f func(r *Reconciler, h *hangingAPI)) {
	synctest.Test(t, func(t *testing.T) {
		h := &hangingAPI{hangs: hangs, created: map[string]time.Time{}, deleted: map[string]time.Time{}}
		r, err := New(Options{Client: h, Node: func() *v1.Node { return newNode() }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		f(r, h)
		cancel()
		<-done
	})
}

// TestHangingCreationsDelayOthersOnce: MC4. Pods whose creation hangs take turns with the others.
func TestHangingCreationsDelayOthersOnce(t *testing.T) {
	withHangingAPI(t, func(_, name string) bool { return name == "a" || name == "b" }, func(r *Reconciler, h *hangingAPI) {
		r.Want(static("a", "a"), nil)
		r.Want(static("b", "b"), nil)
		pass(10 * time.Minute)
		wanted := time.Now()
		r.Want(static("c", "c"), nil)
		pass(time.Hour)
		if at, ok := h.created["c"]; !ok || at.Sub(wanted) > 2*callTimeout {
			t.Errorf("created %v, after %v", ok, at.Sub(wanted))
		}
	})
}

// TestHangingDeletionsDelayOthersOnce: MC7. The same is true of mirror pods that have to go.
func TestHangingDeletionsDelayOthersOnce(t *testing.T) {
	withHangingAPI(t, func(what, name string) bool { return what == "delete" && name != "last" }, func(r *Reconciler, h *hangingAPI) {
		orphan := func(name string) { r.Orphaned(types.NamespacedName{Namespace: "default", Name: name}) }
		for i := range 20 {
			orphan(fmt.Sprint(i))
		}
		pass(time.Second)
		orphan("last")
		for i := range 20 {
			orphan(fmt.Sprint(i)) // housekeeping asks again
		}
		r.Want(static("c", "c"), nil)
		wanted := time.Now()
		pass(time.Hour)
		if took := h.created["c"].Sub(wanted); took < 0 || took > callTimeout {
			t.Errorf("created after %v", took)
		}
		if took := h.deleted["last"].Sub(wanted); took < 0 || took > 20*callTimeout {
			t.Errorf("deleted after %v", took)
		}
	})
}

// TestOrphanThatIsWantedAgainStays: MC7. By the time of its deletion the mirror pod of that name may
// be the one of a new static pod.
func TestOrphanThatIsWantedAgainStays(t *testing.T) {
	withHangingAPI(t, func(_, name string) bool { return name == "first" }, func(r *Reconciler, h *hangingAPI) {
		name := types.NamespacedName{Namespace: "default", Name: "again"}
		r.Orphaned(types.NamespacedName{Namespace: "default", Name: "first"})
		pass(time.Second) // its deletion hangs
		r.Orphaned(name)
		r.Want(static("again", "h2"), nil)
		r.Orphaned(name) // by a pass that has not seen the new pod
		pass(time.Hour)
		if len(h.deleted) > 0 || len(h.created) != 1 {
			t.Errorf("deleted %v, created %v", h.deleted, h.created)
		}
	})
}

// TestBlockedLoggerHoldsUpNoCaller: MC4, MC7. Want, Forget and Orphaned return at once, also while a logger blocks that
// is told of a failure of the API.
func TestBlockedLoggerHoldsUpNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines atomic.Int64
		release := make(chan struct{})
		api := &FakeClient{}
		api.Fail(errors.New("no route"))
		r, err := New(Options{Client: api, Node: func() *v1.Node { return newNode() }, Logger: funcr.New(func(string, string) {
			lines.Add(1)
			<-release
		}, funcr.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		r.Want(static("a", "ha"), nil)
		synctest.Wait()
		if lines.Load() != 1 {
			t.Errorf("%d lines, want that of the failure", lines.Load())
		}
		if r.mu.TryLock() { // otherwise the calls would hang, and the test with them
			r.mu.Unlock()
			api.Fail(nil)
			r.Want(static("b", "hb"), nil)
			r.Orphaned(types.NamespacedName{Namespace: "default", Name: "c"})
			r.Forget("ha")
		} else {
			t.Error("the lock is held while the logger blocks")
		}
		close(release)
		(&rig{Reconciler: r, api: api}).has(t, "afterwards", "b hb")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
