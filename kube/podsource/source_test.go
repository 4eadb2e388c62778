package podsource

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// server is a scripted API server: what lists answer, and the watch that is open.
type server struct {
	*fake.Clientset
	mu       sync.Mutex
	pods     []v1.Pod
	revision string
	err      error
	watch    *watch.FakeWatcher
	lists    int
	events   []string
}

func newServer() *server {
	s := &server{Clientset: fake.NewClientset(), revision: "100"}
	s.PrependReactor("list", "pods", func(clienttesting.Action) (bool, apiruntime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lists++
		if s.err != nil {
			return true, nil, s.err
		}
		return true, &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: s.revision}, Items: slices.Clone(s.pods)}, nil
	})
	s.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err != nil {
			return true, nil, s.err
		}
		s.watch = watch.NewFakeWithChanSize(100, false)
		return true, s.watch, nil
	})
	return s
}

func (s *server) set(revision string, err error, pods ...v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.err, s.pods = revision, err, pods
}

// send sends an event of the open watch.
func (s *server) send(event watch.EventType, object apiruntime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch.Action(event, object)
}

// breakWatch ends the open watch, as a lost connection does.
func (s *server) breakWatch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch.Stop()
}

// expire ends the open watch with 410 Gone: the pods are listed again.
func (s *server) expire() {
	s.send(watch.Error, &metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired})
}

func (s *server) listed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

// Eventf implements [EventRecorder].
func (s *server) Eventf(_ apiruntime.Object, _, reason, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, reason+": "+fmt.Sprintf(format, args...))
}

func pod(name string, uid types.UID, revision string) v1.Pod {
	return v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: uid, ResourceVersion: revision,
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: v1.PodSpec{NodeName: "edge-1"},
	}
}

// sets are what a source delivered, each as "name=uid name=uid".
type sets struct {
	mu  sync.Mutex
	all []string
	err error
}

func (s *sets) deliver(_ context.Context, pods []*v1.Pod) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, p := range pods {
		names = append(names, p.Name+"="+string(p.UID))
	}
	s.all = append(s.all, strings.Join(names, " "))
	return s.err
}

// take returns the sets since the last call.
func (s *sets) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	return all
}

// run runs a source until the test ends, or stop is called.
func run(t *testing.T, api *server, set func(o *Options)) (*Source, *sets, func()) {
	t.Helper()
	return runOn(t, api, func(o *Options) {
		o.Events = api
		if set != nil {
			set(o)
		}
	})
}

func runOn(t *testing.T, client kubernetes.Interface, set func(o *Options)) (*Source, *sets, func()) {
	t.Helper()
	o := Options{NodeName: "edge-1", Client: client}
	if set != nil {
		set(&o)
	}
	source, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	got, done := &sets{}, make(chan struct{})
	go func() {
		defer close(done)
		_ = source.Run(ctx, got.deliver)
	}()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	synctest.Wait()
	return source, got, stop
}

// after lets time pass.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func want(t *testing.T, when string, got *sets, sets ...string) {
	t.Helper()
	if diff := cmp.Diff(sets, got.take()); diff != "" {
		t.Errorf("%s: %s", when, diff)
	}
}

// TestCompleteSets (KS1, KS4, KS5, KS6, KS11): the first set comes after a complete list, an
// empty one too; events change it; a watch that breaks and an outage of a day do not, and
// the list after it removes what is gone, once.
func TestCompleteSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newServer()
		api.set("100", errors.New("connection refused"))
		source, got, _ := run(t, api, nil)
		after(time.Minute)
		want(t, "no API server", got)
		if h := source.Health(); h.LastError == nil || !h.LastSuccess.IsZero() {
			t.Errorf("health %+v", h)
		}
		api.set("100", nil)
		after(time.Minute)
		want(t, "an empty list", got, "")

		a, b := pod("a", "1", "101"), pod("b", "2", "102")
		api.send(watch.Added, &a)
		synctest.Wait()
		want(t, "added", got, "a=1")
		api.send(watch.Added, &b)
		synctest.Wait()
		want(t, "added", got, "a=1 b=2")
		if seen := source.Lookup("2"); seen == nil || seen.Name != "b" || seen.ManagedFields != nil {
			t.Errorf("Lookup: %+v", seen)
		}
		if h := source.Health(); h.LastError != nil || h.LastSuccess.IsZero() {
			t.Errorf("health %+v", h)
		}

		api.set("100", errors.New("connection refused"))
		api.breakWatch()
		after(24 * time.Hour)
		want(t, "a day without API server", got)
		if h := source.Health(); h.LastError == nil || time.Since(h.LastSuccess) < 23*time.Hour {
			t.Errorf("health %+v", h)
		}
		successor := pod("a", "3", "200")
		api.set("201", nil, successor)
		after(time.Minute)
		want(t, "the list after it", got, "a=3")
		if source.Lookup("1") != nil || source.Lookup("2") != nil || source.Lookup("3") == nil {
			t.Error("Lookup knows pods that are gone, or not the new one")
		}
		api.send(watch.Deleted, &successor)
		synctest.Wait()
		want(t, "deleted", got, "")
	})
}

// TestRestartsQuietlyWhileAway: a day without API server costs a bounded number of
// calls.
func TestRestartsQuietlyWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newServer()
		api.set("100", errors.New("connection refused"))
		run(t, api, nil)
		after(24 * time.Hour)
		if n := api.listed(); n < 1000 || n > 10_000 {
			t.Errorf("%d lists in a day", n)
		}
	})
}

// TestWaitsForTheNode (KS2).
func TestWaitsForTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, start := newServer(), make(chan struct{})
		_, got, _ := run(t, api, func(o *Options) { o.Start = start })
		after(time.Hour)
		if n := api.listed(); n != 0 {
			t.Errorf("%d lists before the Node exists", n)
		}
		close(start)
		synctest.Wait()
		want(t, "the Node exists", got, "")
	})
}

// TestExpiredRevision (KS4): 410 Gone lists again.
func TestExpiredRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newServer()
		a := pod("a", "1", "90")
		api.set("100", nil, a)
		_, got, _ := run(t, api, nil)
		want(t, "start", got, "a=1")
		api.expire()
		api.set("300", nil, a, pod("b", "2", "250"))
		after(time.Minute)
		want(t, "after 410", got, "a=1 b=2")
	})
}

// TestSilentWatch (KS9): three minutes without event or bookmark list again; bookmarks
// keep a watch alive.
func TestSilentWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newServer()
		source, got, _ := run(t, api, nil)
		want(t, "start", got, "")
		for range 10 {
			after(2 * time.Minute)
			api.send(watch.Bookmark, &v1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "150"}})
		}
		if n := api.listed(); n != 1 {
			t.Fatalf("%d lists while bookmarks came", n)
		}
		api.set("160", nil, pod("a", "1", "155"))
		after(2 * time.Minute)
		want(t, "2 min of silence", got)
		after(2 * time.Minute)
		want(t, "3 min of silence", got, "a=1")
		if source.Health().LastError != nil {
			t.Errorf("health %+v", source.Health())
		}
	})
}

// TestOlderListWaits (KS7, KS8): a list older than what was known, in this process or the
// one before it, is refused for a minute and then counts, with an event.
func TestOlderListWaits(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%t", restarted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newServer()
				file := filepath.Join(t.TempDir(), "state", "revision")
				keep := func(o *Options) { o.RevisionFile = file }
				api.set("500", nil, pod("a", "1", "400"), pod("b", "2", "450"))
				_, got, stop := run(t, api, keep)
				want(t, "start", got, "a=1 b=2")
				api.set("300", nil, pod("a", "1", "200"))
				if restarted {
					stop()
					_, got, _ = run(t, api, keep)
				} else {
					api.expire()
				}
				after(50 * time.Second)
				want(t, "older", got)
				api.set("510", nil, pod("a", "1", "400"))
				after(time.Minute)
				want(t, "another server that is not behind", got, "a=1")
				if len(api.events) != 0 {
					t.Errorf("events %q", api.events)
				}
				api.set("300", nil)
				api.expire()
				after(2 * time.Minute)
				want(t, "older for more than a minute", got, "")
				if len(api.events) != 1 || !strings.HasPrefix(api.events[0], "APIServerBehind: ") {
					t.Errorf("events %q", api.events)
				}
				if content, err := os.ReadFile(file); err != nil || string(content) != "300\n" {
					t.Errorf("revision file %q, %v", content, err)
				}
			})
		})
	}
}

// TestOlderListAfterOutage (KS8): the time of an outage does not count. A single older list after it, as from a
// replica that lags, is refused like the first.
func TestOlderListAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newServer()
		api.set("500", nil, pod("a", "1", "400"), pod("b", "2", "450"))
		_, got, _ := run(t, api, nil)
		want(t, "start", got, "a=1 b=2")
		api.set("300", nil, pod("a", "1", "200"))
		api.expire()
		after(2 * time.Second)
		api.set("", errors.New("connection refused"))
		after(time.Hour)
		api.set("300", nil, pod("a", "1", "200"))
		after(50 * time.Second)
		want(t, "older before and after an outage", got)
		if len(api.events) != 0 {
			t.Errorf("events %q", api.events)
		}
		api.set("510", nil, pod("a", "1", "400"))
		after(time.Minute)
		want(t, "up to date", got, "a=1")
	})
}

// TestHangingRecorder: a recorder that does not return delays neither the list whose event
// it has, nor those after it.
func TestHangingRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, hung := newServer(), make(chan struct{})
		api.set("500", nil, pod("a", "1", "400"))
		_, got, stop := run(t, api, func(o *Options) { o.Events = hanging(hung) })
		want(t, "start", got, "a=1")
		api.set("300", nil)
		api.expire()
		after(2 * time.Minute)
		want(t, "older for more than a minute", got, "")
		a := pod("b", "2", "310")
		api.send(watch.Added, &a)
		synctest.Wait()
		want(t, "an event after it", got, "b=2")
		close(hung)
		stop()
	})
}

// hanging is a recorder that returns once it is closed.
type hanging chan struct{}

func (h hanging) Eventf(apiruntime.Object, string, string, string, ...any) { <-h }

// TestBadOptions: every problem is named; a revision file that is damaged is not taken for
// a first start.
func TestBadOptions(t *testing.T) {
	_, err := New(Options{RevisionFile: "revision", Silence: -1})
	for _, want := range []string{"no NodeName", "no Client", `"revision"`, "negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	file := filepath.Join(t.TempDir(), "revision")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{NodeName: "edge-1", Client: newServer(), RevisionFile: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v", err)
	}
}

// TestUnwritableRevision: a disk that takes no file delays no pod.
func TestUnwritableRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newServer()
		dir := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		o := Options{NodeName: "edge-1", Client: api}
		source, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		source.options.RevisionFile = filepath.Join(dir, "revision")
		source.revision.options.RevisionFile = source.options.RevisionFile
		ctx, cancel := context.WithCancel(t.Context())
		got, done := &sets{}, make(chan error)
		go func() { done <- source.Run(ctx, got.deliver) }()
		synctest.Wait()
		want(t, "start", got, "")
		cancel()
		<-done
	})
}
