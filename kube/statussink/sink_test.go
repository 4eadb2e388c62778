package statussink

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/statustest"
)

func newSink(t *testing.T, s *server, edits ...func(*Options)) *Sink {
	t.Helper()
	o := Options{Client: s.client(t), QPS: 1e6, Burst: 1e6}
	for _, edit := range edits {
		edit(&o)
	}
	sink, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

func aPod(uid types.UID, name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "shop", Name: name}}
}

func ref(pod *v1.Pod) status.PodRef {
	return status.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
}

// watched is a watch that shows what it is given.
type watched struct {
	mu   sync.Mutex
	pods map[types.UID]*v1.Pod
}

func (w *watched) show(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods == nil {
		w.pods = map[types.UID]*v1.Pod{}
	}
	w.pods[pod.UID] = pod
}

func (w *watched) lookup(uid types.UID) *v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[uid]
}

func store(t *testing.T, sink *Sink, pod *v1.Pod, next v1.PodStatus) status.StoreResult {
	t.Helper()
	base, err := sink.ReadPod(t.Context(), ref(pod))
	if err != nil || base == nil {
		t.Fatalf("ReadPod: %v, %v", base, err)
	}
	result, err := sink.Store(t.Context(), status.Update{PodRef: ref(pod), Version: 1, Base: &base.Status, Status: &next})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func phase(p v1.PodPhase) v1.PodStatus { return v1.PodStatus{Phase: p} }

// TestConformance: the sink keeps the contract of a status sink (spec/status.md 8.8).
func TestConformance(t *testing.T) {
	for name, lookup := range map[string]bool{"without a watch": false, "with a watch": true} {
		t.Run(name, func(t *testing.T) {
			statustest.Run(t, func(t *testing.T) statustest.Subject {
				s := newServer()
				w := &watched{}
				sink := newSink(t, s, func(o *Options) {
					if lookup {
						o.Lookup = w.lookup
					}
				})
				fault := func(f func(*http.Request) *http.Response) func(bool) {
					return func(on bool) {
						if s.setFault(nil); on {
							s.setFault(f)
						}
					}
				}
				return statustest.Subject{
					Sink: sink, Stored: s.statuses,
					AddPod: func(pod *v1.Pod) { w.show(s.put(pod)) },
					Break: fault(func(*http.Request) *http.Response {
						return failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd is away", 0)
					}),
					Block: fault(hang),
				}
			})
		})
	}
}

// TestPatchCarriesUIDAndDifference: KT1.
func TestPatchCarriesUIDAndDifference(t *testing.T) {
	s := newServer()
	pod := aPod("u1", "web")
	pod.Status = v1.PodStatus{Phase: v1.PodPending, QOSClass: v1.PodQOSBurstable, Conditions: []v1.PodCondition{
		{Type: "example.com/gate", Status: v1.ConditionTrue, Reason: "Theirs"}, {Type: v1.PodReady, Status: v1.ConditionFalse},
	}}
	s.put(pod)
	sink := newSink(t, s)
	next := *pod.Status.DeepCopy()
	next.Phase, next.Conditions[1].Status = v1.PodRunning, v1.ConditionTrue
	if got := store(t, sink, pod, next); got != status.Stored {
		t.Errorf("stored: %v", got)
	}
	const want = `{"metadata":{"uid":"u1"},"status":{"$setElementOrder/conditions":[{"type":"example.com/gate"},{"type":"Ready"}],` +
		`"conditions":[{"status":"True","type":"Ready"}],"phase":"Running"}}`
	if got := s.body(); got != want {
		t.Errorf("patch\n%s, want\n%s", got, want)
	}
	s.took()
	if got := store(t, sink, pod, next); got != status.Unchanged {
		t.Errorf("the same again: %v", got)
	}
	if got := s.took(); got != "GET web" {
		t.Errorf("the same again took %s", got)
	}
}

// TestRefusedPatchIsReadAgain: KT2. What a refused patch means is what a fresh read says;
// a node may not read what is no pod of its own.
func TestRefusedPatchIsReadAgain(t *testing.T) {
	remake := func(node string) func(*server, *watched) {
		return func(s *server, w *watched) {
			next := aPod("u2", "web")
			next.Spec.NodeName = node
			s.put(next)
			delete(w.pods, "u1")
		}
	}
	edit := func(s *server, _ *watched) { s.edit("shop", "web", func(*v1.Pod) {}) }
	for name, test := range map[string]struct {
		meanwhile func(*server, *watched)
		next      v1.PodStatus
		want      status.StoreResult
		err       string
	}{
		"deleted": {func(s *server, w *watched) {
			s.remove("shop", "web")
			delete(w.pods, "u1")
		}, phase(v1.PodRunning), status.Gone, ""},
		"made again":                 {remake("n1"), phase(v1.PodRunning), status.Recreated, ""},
		"made again on another node": {remake("n2"), phase(v1.PodRunning), status.Gone, ""},
		"changed, and it ended":      {edit, phase(v1.PodFailed), status.Conflict, ""},
		"changed, and it runs":       {edit, phase(v1.PodRunning), status.Stored, ""},
		"invalid":                    {func(*server, *watched) {}, v1.PodStatus{PodIP: "bad"}, 0, "must be an IP"},
	} {
		t.Run(name, func(t *testing.T) {
			s, w := newServer(), &watched{}
			s.authorizer = true
			pod := aPod("u1", "web")
			pod.Spec.NodeName = "n1"
			pod = s.put(pod)
			w.show(pod)
			sink := newSink(t, s, func(o *Options) { o.Lookup = w.lookup })
			base, _ := sink.ReadPod(t.Context(), ref(pod))
			test.meanwhile(s, w)
			got, err := sink.Store(t.Context(), status.Update{PodRef: ref(pod), Base: &base.Status, Status: &test.next})
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) || err == nil && got != test.want {
				t.Errorf("%v, %v; want %v", got, err, test.want)
			}
			for _, stored := range s.statuses("u2") {
				t.Errorf("the next life has the status %v", stored)
			}
		})
	}
}

// TestRefusedPatchReadFails: KT2, 8.8. Without the second read nothing is known, and the
// status stays.
func TestRefusedPatchReadFails(t *testing.T) {
	s := newServer()
	pod := s.put(aPod("u1", "web"))
	sink := newSink(t, s)
	s.put(aPod("u2", "web"))
	s.setFault(func(r *http.Request) *http.Response {
		if r.Method == http.MethodGet {
			return failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd is away", 0)
		}
		return nil
	})
	if got, err := sink.Store(t.Context(), status.Update{PodRef: ref(pod), Base: &pod.Status, Status: &v1.PodStatus{Phase: v1.PodRunning}}); err == nil {
		t.Errorf("took it: %v", got)
	}
}

// TestPageIsNoWordAboutThePod: KT2, KT4. A page of something in front of the API server, as of a load balancer, says
// nothing about a pod: its status stays to be sent, and it stays to be deleted.
func TestPageIsNoWordAboutThePod(t *testing.T) {
	for _, code := range []int{http.StatusNotFound, http.StatusForbidden} {
		s, w := newServer(), &watched{}
		pod := s.put(aPod("u1", "web"))
		sink := newSink(t, s, func(o *Options) { o.Lookup = w.lookup })
		s.setFault(func(*http.Request) *http.Response { return page(code) })
		if got, err := sink.ReadPod(t.Context(), ref(pod)); err == nil {
			t.Errorf("%d: read %v", code, got)
		}
		for _, base := range []*v1.PodStatus{nil, {Phase: v1.PodRunning}} {
			if got, err := sink.Store(t.Context(), status.Update{PodRef: ref(pod), Base: base, Status: &v1.PodStatus{Phase: v1.PodSucceeded}}); err == nil {
				t.Errorf("%d: the end of the pod is %v", code, got)
			}
		}
		if err := sink.DeletePod(t.Context(), ref(pod)); err == nil {
			t.Errorf("%d: it counts as deleted", code)
		}
		s.setFault(nil)
		if got := store(t, sink, pod, phase(v1.PodSucceeded)); got != status.Stored {
			t.Errorf("%d: afterwards: %v", code, got)
		}
	}
}

// TestPageIsNoConflict: KT2, KT4. A page decides nothing even if the pod can be read: its status is no conflict, and it stays to be
// deleted. The pod is not read because of it.
func TestPageIsNoConflict(t *testing.T) {
	for _, code := range []int{http.StatusConflict, http.StatusUnprocessableEntity, http.StatusForbidden} {
		s := newServer()
		pod := s.put(aPod("u1", "web"))
		sink := newSink(t, s)
		reads := 0
		s.setFault(func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet {
				reads++
				return nil
			}
			return page(code)
		})
		u := status.Update{PodRef: ref(pod), Base: &v1.PodStatus{Phase: v1.PodRunning}, Status: &v1.PodStatus{Phase: v1.PodSucceeded}}
		if got, err := sink.Store(t.Context(), u); err == nil {
			t.Errorf("%d: the status is %v", code, got)
		}
		if err := sink.DeletePod(t.Context(), ref(pod)); err == nil {
			t.Errorf("%d: it counts as deleted", code)
		}
		if reads != 0 {
			t.Errorf("%d: %d reads", code, reads)
		}
	}
}

// TestWatchCopySavesTheRead: KT5. One call per status as long as the watch shows what was
// written last; a watch that lags is bridged by the server's own answers.
func TestWatchCopySavesTheRead(t *testing.T) {
	s, w := newServer(), &watched{}
	pod := s.put(aPod("u1", "web"))
	w.show(pod)
	sink := newSink(t, s, func(o *Options) { o.Lookup = w.lookup })
	store(t, sink, pod, v1.PodStatus{Phase: v1.PodPending, Message: "1"})
	store(t, sink, pod, v1.PodStatus{Phase: v1.PodPending, Message: "2"})
	if got := s.took(); got != "PATCH web/status, PATCH web/status" {
		t.Errorf("a watch that lags: %s", got)
	}
	// The first value again, which the lagging watch has never left.
	if got := store(t, sink, pod, v1.PodStatus{}); got != status.Stored {
		t.Errorf("back to the first: %v", got)
	}
	w.show(s.pod("shop", "web"))
	store(t, sink, pod, phase(v1.PodRunning))
	if got := s.took(); got != "PATCH web/status, PATCH web/status" {
		t.Errorf("a fresh watch: %s", got)
	}
	if len(sink.copies.newest) != 1 {
		t.Errorf("%d copies are kept", len(sink.copies.newest))
	}
	w.show(s.pod("shop", "web"))
	if got, err := sink.ReadPod(t.Context(), ref(pod)); err != nil || got != w.lookup("u1") || len(sink.copies.newest) != 0 {
		t.Errorf("read %v, %v; %d copies are kept", got, err, len(sink.copies.newest))
	}
}

// TestFailedPatchIsReadBack: KT5. After a patch of unknown effect the watch is not
// believed before a read.
func TestFailedPatchIsReadBack(t *testing.T) {
	s, w := newServer(), &watched{}
	pod := s.put(aPod("u1", "web"))
	w.show(pod)
	sink := newSink(t, s, func(o *Options) { o.Lookup = w.lookup })
	base, _ := sink.ReadPod(t.Context(), ref(pod))
	s.lost = true
	if _, err := sink.Store(t.Context(), status.Update{PodRef: ref(pod), Base: &base.Status, Status: &v1.PodStatus{Phase: v1.PodRunning}}); err == nil {
		t.Fatal("a lost answer is success")
	}
	s.lost = false
	// What the watch still shows is wanted again, and the server has something newer.
	if got := store(t, sink, pod, v1.PodStatus{}); got != status.Stored {
		t.Errorf("%v", got)
	}
	if got := s.pod("shop", "web").Status.Phase; got != "" {
		t.Errorf("the server has %q", got)
	}
}

// TestRewoundServerIsReadAgain: KT5, KS8. A server that was restored from a backup has
// forgotten a write: what it answered to that counts for a moment only.
func TestRewoundServerIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newServer(), &watched{}
		pod := s.put(aPod("u1", "web"))
		w.show(pod)
		sink := newSink(t, s, func(o *Options) { o.Lookup = w.lookup })
		store(t, sink, pod, phase(v1.PodRunning))
		s.mu.Lock()
		s.version = 0
		s.mu.Unlock()
		s.put(pod)
		if got := store(t, sink, pod, phase(v1.PodRunning)); got != status.Unchanged {
			t.Errorf("at once: %v", got)
		}
		<-time.After(bridge)
		for range 2 {
			if got := store(t, sink, pod, phase(v1.PodRunning)); got != status.Stored && got != status.Unchanged {
				t.Errorf("later: %v", got)
			}
		}
		if got := s.pod("shop", "web").Status.Phase; got != v1.PodRunning {
			t.Errorf("the server has %q", got)
		}
	})
}

// TestEndNeverReplacesAnEnd: KT2. A terminal phase that another client wrote meanwhile
// stands: the end of a pod is written on what was read, or not at all.
func TestEndNeverReplacesAnEnd(t *testing.T) {
	s, w := newServer(), &watched{}
	pod := aPod("u1", "web")
	pod.Status.Phase = v1.PodRunning
	pod = s.put(pod)
	w.show(pod)
	sink := newSink(t, s, func(o *Options) { o.Lookup = w.lookup })
	s.edit("shop", "web", func(p *v1.Pod) { p.Status.Phase = v1.PodFailed })
	if got := store(t, sink, pod, phase(v1.PodSucceeded)); got != status.Conflict {
		t.Errorf("%v, want a conflict", got)
	}
	if base, err := sink.ReadPod(t.Context(), ref(pod)); err != nil || base.Status.Phase != v1.PodFailed {
		t.Errorf("read after it: %v, %v", base, err)
	}
}

// TestDelete: KT4. A pod that is gone or was replaced is deleted; whom a refusal is about
// is asked.
func TestDelete(t *testing.T) {
	elsewhere := aPod("u2", "web")
	elsewhere.Spec.NodeName = "n2"
	missing := func(r *http.Request) *http.Response {
		if r.Method == http.MethodGet {
			return nil
		}
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "not in the cache yet", 0)
	}
	for name, test := range map[string]struct {
		there *v1.Pod
		fault func(*http.Request) *http.Response
		ok    bool
		calls string
		left  types.UID
	}{
		"it is there":                       {there: aPod("u1", "web"), ok: true, calls: "DELETE web"},
		"gone":                              {ok: true, calls: "DELETE web"},
		"a server that has not seen it yet": {there: aPod("u1", "web"), fault: missing, calls: "DELETE web, GET web", left: "u1"},
		"gone, and the watch is behind": {there: aPod("u1", "web"), fault: func(*http.Request) *http.Response {
			return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "no such pod", 0)
		}, ok: true, calls: "DELETE web, GET web", left: "u1"},
		"another life": {there: aPod("u2", "web"), ok: true, calls: "DELETE web, GET web", left: "u2"},
		"a conflict about the pod itself": {there: aPod("u1", "web"), fault: func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet {
				return nil
			}
			return failure(http.StatusConflict, metav1.StatusReasonConflict, "try again", 0)
		}, calls: "DELETE web, GET web", left: "u1"},
		"another life, on another node": {there: elsewhere, ok: true, calls: "DELETE web, GET web", left: "u2"},
		"forbidden": {there: aPod("u1", "web"), fault: func(*http.Request) *http.Response {
			return failure(http.StatusForbidden, metav1.StatusReasonForbidden, "no", 0)
		}, calls: "DELETE web, GET web", left: "u1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			w := &watched{}
			if test.there != nil {
				s.authorizer = test.there == elsewhere
				w.show(s.put(test.there))
			}
			s.setFault(test.fault)
			sink := newSink(t, s, func(o *Options) { o.Lookup = w.lookup })
			if err := sink.DeletePod(t.Context(), ref(aPod("u1", "web"))); (err == nil) != test.ok {
				t.Errorf("error %v", err)
			}
			if got := s.took(); got != test.calls {
				t.Errorf("calls %s, want %s", got, test.calls)
			}
			if left := s.pod("shop", "web"); left == nil && test.left != "" || left != nil && left.UID != test.left {
				t.Errorf("left %v", left)
			}
		})
	}
}

// TestNothingIsKeptOfPodsThatAreGone: KT5. What bridges a lagging watch goes with the pod.
func TestNothingIsKeptOfPodsThatAreGone(t *testing.T) {
	s, w := newServer(), &watched{}
	sink := newSink(t, s, func(o *Options) { o.Lookup = w.lookup })
	for i := range 1000 {
		uid := types.UID(fmt.Sprint("u", i))
		pod := s.put(aPod(uid, string(uid)))
		w.show(pod)
		store(t, sink, pod, phase(v1.PodFailed))
		switch i % 4 {
		case 0:
			if err := sink.DeletePod(t.Context(), ref(pod)); err != nil {
				t.Fatal(err)
			}
		case 1: // the watch shows the write
			w.show(s.pod("shop", string(uid)))
		default: // another client deletes it
			s.remove("shop", string(uid))
			delete(w.pods, uid)
		}
	}
	if n := len(sink.copies.newest); n > sweepAt {
		t.Errorf("%d copies are kept", n)
	}
}

// TestOptions: what is wrong is said at once.
func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no client":      {},
		"negative rate":  {Client: newServer().client(t), QPS: -1},
		"negative burst": {Client: newServer().client(t), Burst: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestCallWithoutEffectCostsNoRead: KT5. A status that was not sent, or that the server did not admit, changed
// nothing, so the next attempt starts from the watch too.
func TestCallWithoutEffectCostsNoRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newServer(), &watched{}
		pod := s.put(aPod("u1", "web"))
		w.show(pod)
		sink := newSink(t, s, func(o *Options) { o.Lookup = w.lookup })
		try := func(ctx context.Context, what string) {
			t.Helper()
			base, err := sink.ReadPod(t.Context(), ref(pod))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sink.Store(ctx, status.Update{PodRef: ref(pod), Base: &base.Status, Status: &v1.PodStatus{Phase: v1.PodRunning}}); err == nil {
				t.Errorf("%s is success", what)
			}
			if sink.copies.fresh(ref(pod)) == nil {
				t.Errorf("%s: the next attempt reads the pod", what)
			}
		}
		s.setFault(func(*http.Request) *http.Response { return busy(5) })
		try(t.Context(), "429")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		try(ctx, "a pause that outlasts the context")
		<-time.After(10 * time.Second)
		s.setFault(func(*http.Request) *http.Response { return failure(401, metav1.StatusReasonUnauthorized, "who?", 0) })
		try(t.Context(), "401")
		if got := s.took(); strings.Contains(got, "GET") {
			t.Errorf("calls: %s", got)
		}
	})
}
