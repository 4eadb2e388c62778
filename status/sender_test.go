package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/goroutinetest"
	"github.com/podwright/podwright/internal/wallclocktest"
)

// recorder is a sink that keeps what it got; answer, if set, decides.
type recorder struct {
	mu      sync.Mutex
	updates []Update
	times   []time.Time
	now     func() time.Time
	answer  func(ctx context.Context, n int, u Update) (StoreResult, error)
}

func (r *recorder) Store(ctx context.Context, u Update) (StoreResult, error) {
	r.mu.Lock()
	r.updates = append(r.updates, u)
	if r.now != nil {
		r.times = append(r.times, r.now())
	}
	n := len(r.updates)
	r.mu.Unlock()
	if r.answer != nil {
		return r.answer(ctx, n, u)
	}
	return Stored, nil
}

// got returns what came for one pod.
func (r *recorder) got(uid types.UID) (out []Update) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.updates {
		if u.UID == uid {
			out = append(out, u)
		}
	}
	return out
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.updates)
}

// readable is a recorder that stands before an API.
type readable struct{ *recorder }

func (readable) ReadPod(_ context.Context, ref PodRef) (*v1.Pod, error) {
	return newPod(uid(ref.UID)), nil
}

// versions of updates.
func versions(updates []Update) (out []uint64) {
	for _, u := range updates {
		out = append(out, u.Version)
	}
	return out
}

// started runs a manager in a bubble until the test ends.
func started(t *testing.T, options Options) *Manager {
	t.Helper()
	if options.Jitter == nil {
		options.Jitter = func() float64 { return 0 }
	}
	m := NewManager(options)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return m
}

// bubble runs a test on virtual time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// advance lets virtual time pass, and everything due in it happen.
func advance(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// message is a status that differs by its message.
func message(text string) *v1.PodStatus {
	return &v1.PodStatus{Phase: v1.PodRunning, Message: text}
}

func TestSending(t *testing.T) {
	bubble(t, "8.1 one transition, one emission; an unchanged status none", func(t *testing.T) {
		sink := &recorder{}
		m := started(t, Options{Sinks: []StatusSink{sink}})
		pod := newPod()
		for i := range 5 {
			for range 3 {
				set(t, m, pod, message(fmt.Sprint(i)))
				synctest.Wait()
			}
		}
		if got := versions(sink.got(pod.UID)); !slices.Equal(got, []uint64{1, 2, 3, 4, 5}) {
			t.Errorf("versions %v", got)
		}
		if u := sink.got(pod.UID)[4]; u.Status.Message != "4" || u.Base.Message != "3" || u.Namespace != "shop" || u.Name != "web" {
			t.Errorf("%+v", u)
		}
	})

	bubble(t, "an idle hour with 500 pods: nothing", func(t *testing.T) {
		sink := &recorder{}
		m := started(t, Options{Sinks: []StatusSink{sink}})
		synctest.Wait()
		goroutines := goroutinetest.Count("podwright/status")
		for i := range 500 {
			set(t, m, newPod(uid(types.UID(fmt.Sprint(i)))), message("up"))
		}
		synctest.Wait()
		if n := goroutinetest.Count("podwright/status"); n > goroutines {
			t.Errorf("%d goroutines for idle pods", n-goroutines)
		}
		before := sink.count()
		for range 60 {
			advance(t, time.Minute)
			for i := range 500 {
				set(t, m, newPod(uid(types.UID(fmt.Sprint(i)))), message("up"))
			}
		}
		synctest.Wait()
		if before != 500 || sink.count() != before {
			t.Errorf("%d sends, then %d more", before, sink.count()-before)
		}
	})

	bubble(t, "8.7 versions collapse while a send is in flight, never two at once", func(t *testing.T) {
		release := make(chan struct{})
		inFlight := map[types.UID]int{}
		sink := &recorder{}
		sink.answer = func(_ context.Context, _ int, u Update) (StoreResult, error) {
			sink.mu.Lock()
			inFlight[u.UID]++
			if inFlight[u.UID] > 1 {
				t.Errorf("two sends of %s at once", u.UID)
			}
			sink.mu.Unlock()
			<-release
			sink.mu.Lock()
			inFlight[u.UID]--
			sink.mu.Unlock()
			return Stored, nil
		}
		m := started(t, Options{Sinks: []StatusSink{sink}})
		pod := newPod()
		for i := range 10 {
			set(t, m, pod, message(fmt.Sprint(i)))
			synctest.Wait()
		}
		if got := versions(sink.got(pod.UID)); !slices.Equal(got, []uint64{1}) {
			t.Errorf("sent %v while the first hangs", got)
		}
		close(release)
		synctest.Wait()
		if got := versions(sink.got(pod.UID)); !slices.Equal(got, []uint64{1, 10}) {
			t.Errorf("versions %v, want 1 and the newest", got)
		}
	})

	bubble(t, "8.7 back-off 1 s to 30 s, then the newest version", func(t *testing.T) {
		sink := &recorder{now: time.Now, answer: func(_ context.Context, n int, _ Update) (StoreResult, error) {
			if n <= 8 {
				return 0, errors.New("disk full")
			}
			return Stored, nil
		}}
		m := started(t, Options{Sinks: []StatusSink{sink}})
		begin := time.Now()
		pod := newPod()
		set(t, m, pod, message("first"))
		synctest.Wait()
		set(t, m, pod, message("second"))
		advance(t, 10*time.Minute)
		var gaps []time.Duration
		last := begin
		for _, at := range sink.times {
			gaps = append(gaps, at.Sub(last))
			last = at
		}
		s := time.Second
		if want := []time.Duration{0, s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s, 30 * s}; !slices.Equal(gaps, want) {
			t.Errorf("sends after %v, want %v", gaps, want)
		}
		if got := versions(sink.updates); !slices.Equal(got, []uint64{1, 2, 2, 2, 2, 2, 2, 2, 2}) {
			t.Errorf("versions %v", got)
		}
		// A success resets the sequence: the next failure waits 1 s again.
		sink.answer = func(_ context.Context, n int, _ Update) (StoreResult, error) {
			if n == 10 {
				return 0, errors.New("once")
			}
			return Stored, nil
		}
		set(t, m, pod, message("third"))
		advance(t, s)
		if sink.count() != 11 {
			t.Errorf("%d sends", sink.count())
		}
	})

	bubble(t, "a hanging sink delays neither callers nor other sinks", func(t *testing.T) {
		hanging := &recorder{answer: func(ctx context.Context, _ int, _ Update) (StoreResult, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}}
		panicking := &recorder{answer: func(context.Context, int, Update) (StoreResult, error) { panic("boom") }}
		silly := &recorder{answer: func(context.Context, int, Update) (StoreResult, error) { return 0, nil }}
		good := &recorder{}
		m := started(t, Options{Sinks: []StatusSink{hanging, panicking, silly, good}, SendTimeout: 7 * time.Second})
		begin := time.Now()
		for i := range 20 {
			set(t, m, newPod(uid(types.UID(fmt.Sprint(i)))), message("up"))
		}
		synctest.Wait()
		if good.count() != 20 || !time.Now().Equal(begin) {
			t.Errorf("the good sink got %d of 20 after %v", good.count(), time.Since(begin))
		}
		if hanging.count() != 4 {
			t.Errorf("%d sends in flight, want 4", hanging.count())
		}
		if panicking.count() != 20 || silly.count() != 20 {
			t.Errorf("panicking %d, silly %d", panicking.count(), silly.count())
		}
		advance(t, 400*time.Millisecond)
		if hanging.count() != 4 {
			t.Errorf("%d sends in flight, want 4 until they wait", hanging.count())
		}
		advance(t, 700*time.Millisecond)
		if hanging.count() != 20 {
			t.Errorf("IN1: %d sends in flight beside those that hang, want all 20", hanging.count())
		}
		advance(t, 6*time.Second)
		if silly.count() <= 20 || panicking.count() <= 20 {
			t.Error("not tried again")
		}
	})

	bubble(t, "sinks of one name are independent", func(t *testing.T) {
		hangs, well := NewChannelSink(0), NewChannelSink(10)
		m := started(t, Options{Sinks: []StatusSink{hangs, well}})
		for _, text := range []string{"a", "b"} {
			set(t, m, newPod(), message(text))
			advance(t, 2*time.Second)
		}
		if n := len(well.Updates()); n != 2 {
			t.Errorf("%d updates beside a sink that hangs", n)
		}
	})

	bubble(t, "8.7: a send that began for an earlier life of its pod waits since then", func(t *testing.T) {
		sink := &recorder{answer: func(ctx context.Context, _ int, _ Update) (StoreResult, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}}
		m := started(t, Options{Sinks: []StatusSink{sink}, SendTimeout: time.Hour})
		set(t, m, newPod(uid("a")), message("up"))
		advance(t, time.Second)
		m.Forget("a")
		set(t, m, newPod(uid("a")), message("up again"))
		if found := m.Problems(); len(found) != 0 {
			t.Errorf("after a second: %v", found)
		}
		advance(t, time.Minute)
		if found := m.Problems(); len(found) != 1 || time.Since(found[0].Since) != time.Minute+time.Second {
			t.Errorf("after a minute: %v", found)
		}
	})

	bubble(t, "IN1: a send that hangs keeps its place no longer if the clock is set back", func(t *testing.T) {
		sink := &recorder{answer: func(ctx context.Context, _ int, u Update) (StoreResult, error) {
			if u.UID == "bad" {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return Stored, nil
		}}
		c := &wallclocktest.Clock{}
		m := started(t, Options{Sinks: []StatusSink{sink}, MaxInFlight: 1, Clock: c})
		set(t, m, newPod(uid("bad")), message("up"))
		advance(t, 100*time.Millisecond)
		c.Set(-time.Hour)
		set(t, m, newPod(uid("good")), message("up"))
		advance(t, time.Second)
		if len(sink.got("good")) != 1 {
			t.Error("the good pod waits")
		}
	})

	bubble(t, "IN1: sends that hang delay no other pod of the sink", func(t *testing.T) {
		sink := &recorder{answer: func(ctx context.Context, _ int, u Update) (StoreResult, error) {
			if strings.HasPrefix(string(u.UID), "bad") {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return Stored, nil
		}}
		m := started(t, Options{Sinks: []StatusSink{sink}})
		for i := range 500 {
			set(t, m, newPod(uid(types.UID(fmt.Sprint("bad", i)))), message("up"))
		}
		for i := range 1000 {
			set(t, m, newPod(uid("good")), message(fmt.Sprint("up ", i)))
			advance(t, time.Second)
			if late := len(sink.got("good")); i > 3 && late < i-2 {
				t.Fatalf("%d statuses after %d s", late, i)
			}
		}
	})

	bubble(t, "a pod that cannot be stored delays no other pod", func(t *testing.T) {
		sink := &recorder{answer: func(_ context.Context, _ int, u Update) (StoreResult, error) {
			if u.UID == "bad" {
				return 0, errors.New("rejected")
			}
			return Stored, nil
		}}
		m := started(t, Options{Sinks: []StatusSink{sink}, MaxInFlight: 1})
		set(t, m, newPod(uid("bad")), message("up"))
		set(t, m, newPod(uid("good")), message("up"))
		synctest.Wait()
		if len(sink.got("good")) != 1 {
			t.Error("the good pod waits")
		}
	})

	bubble(t, "8.8 results", func(t *testing.T) {
		for result, want := range map[StoreResult]int{Stored: 1, Unchanged: 1, Conflict: 2, Gone: 2, Recreated: 1} {
			sink := &recorder{answer: func(_ context.Context, n int, _ Update) (StoreResult, error) {
				if n > 1 {
					return Stored, nil
				}
				return result, nil
			}}
			m := started(t, Options{Sinks: []StatusSink{sink}})
			set(t, m, newPod(), message("up"))
			advance(t, time.Hour)
			if sink.count() != want {
				t.Errorf("%s: %d sends, want %d", result, sink.count(), want)
			}
		}
	})

	bubble(t, "8.3 a finished pod that is gone is not asked for again", func(t *testing.T) {
		for name, c := range map[string]struct {
			options []podOption
			again   bool
		}{"of an API": {nil, false}, "static": {[]podOption{static}, true}} {
			sink := &recorder{answer: func(context.Context, int, Update) (StoreResult, error) { return Gone, nil }}
			journal := newNotebook(true)
			m := started(t, Options{Sinks: []StatusSink{sink}, Journal: journal})
			pod := newPod(c.options...)
			set(t, m, pod, message("up"))
			advance(t, time.Minute)
			if sink.count() < 5 {
				t.Errorf("%s: a pod that goes on is asked for %d times", name, sink.count())
			}
			if err := m.TerminatePod(pod); err != nil {
				t.Fatal(err)
			}
			advance(t, time.Minute)
			before := sink.count()
			advance(t, time.Hour)
			changed, acked := journal.got(pod.UID)
			if again := sink.count() > before; again != c.again || (acked == changed) == c.again {
				t.Errorf("%s: asked again: %t; version %d, acknowledged %d", name, again, changed, acked)
			}
		}
	})

	bubble(t, "edge 19: a recreated pod is not asked for again without news", func(t *testing.T) {
		sink := &recorder{answer: func(context.Context, int, Update) (StoreResult, error) { return Recreated, nil }}
		m := started(t, Options{Sinks: []StatusSink{sink}})
		set(t, m, newPod(), message("up"))
		advance(t, time.Hour)
		if sink.count() != 1 {
			t.Errorf("%d sends", sink.count())
		}
		set(t, m, newPod(), message("still"))
		advance(t, time.Hour)
		if got := sink.got("uid-1"); len(got) != 2 || got[1].Base != nil {
			t.Errorf("%+v", got)
		}
	})

	bubble(t, "Healthy names the failing sink until it takes everything", func(t *testing.T) {
		var mu sync.Mutex
		full := true
		sink := SinkFunc(func(_ context.Context, u Update) (StoreResult, error) {
			mu.Lock()
			defer mu.Unlock()
			if full && u.UID != "fine" {
				return 0, syscall.ENOSPC
			}
			return Stored, nil
		})
		m := started(t, Options{Sinks: []StatusSink{&recorder{}, sink}})
		begin := time.Now()
		for _, u := range []types.UID{"a", "b", "forgotten", "fine"} {
			set(t, m, newPod(uid(u)), message("up"))
		}
		advance(t, time.Minute)
		m.Forget("forgotten")
		var failing *SinkError
		problems := m.Problems()
		if len(problems) != 1 || !errors.As(problems[0], &failing) || failing.Pods != 2 || failing.Sink != "1:status.SinkFunc" || !failing.Since.Equal(begin) || !errors.Is(failing, syscall.ENOSPC) {
			t.Errorf("%v: %+v", problems, failing)
		}
		mu.Lock()
		full = false
		mu.Unlock()
		advance(t, time.Minute)
		if problems := m.Problems(); problems != nil {
			t.Errorf("after the fault: %v", problems)
		}
	})

	bubble(t, "a new life of a fixed UID starts from nothing", func(t *testing.T) {
		sink := &recorder{answer: func(_ context.Context, n int, _ Update) (StoreResult, error) {
			if n == 1 {
				return Recreated, nil
			}
			return Stored, nil
		}}
		m := started(t, Options{Sinks: []StatusSink{sink}})
		pod := newPod()
		set(t, m, pod, message("first life"))
		synctest.Wait()
		m.Forget(pod.UID)
		set(t, m, pod, message("second life"))
		synctest.Wait()
		got := sink.got(pod.UID)
		// The sender may have had the time to tell that the first life is forgotten.
		got = slices.DeleteFunc(got, func(u Update) bool { return u.Forgotten })
		if len(got) != 2 || got[1].Version != 1 || got[1].Base != nil || got[1].Status.Message != "second life" {
			t.Errorf("%+v", got)
		}
	})

	bubble(t, "7.10 at an API a change on its way gets one try after the pod is forgotten", func(t *testing.T) {
		for _, fails := range []bool{false, true} {
			release := make(chan struct{})
			sink := &recorder{answer: func(_ context.Context, n int, _ Update) (StoreResult, error) {
				<-release
				if fails {
					return 0, errors.New("no")
				}
				return Stored, nil
			}}
			m := started(t, Options{Sinks: []StatusSink{readable{sink}}, MaxInFlight: 1})
			set(t, m, newPod(uid("other")), message("up"))
			synctest.Wait()
			set(t, m, newPod(), message("last words"))
			m.RemoveOrphanedStatuses(nil)
			close(release)
			advance(t, time.Hour)
			if got := sink.got("uid-1"); len(got) != 1 || got[0].Status.Message != "last words" {
				t.Errorf("fails %t: %+v", fails, got)
			}
			m.mu.Lock()
			if left := len(m.senders[0].pods); left != 0 {
				t.Errorf("fails %t: %d deliveries left", fails, left)
			}
			m.mu.Unlock()
		}
	})

	bubble(t, "a sink that fails all the time fills no log", func(t *testing.T) {
		var loud atomic.Int32
		log := funcr.New(func(_, args string) {
			if strings.Contains(args, "status not sent") {
				loud.Add(1)
			}
		}, funcr.Options{})
		sink := SinkFunc(func(context.Context, Update) (StoreResult, error) { return 0, syscall.ENOSPC })
		m := started(t, Options{Sinks: []StatusSink{sink}, Logger: log})
		set(t, m, newPod(), message("up"))
		advance(t, time.Hour)
		if loud.Load() != 1 {
			t.Errorf("%d lines", loud.Load())
		}
	})

	bubble(t, "Flush waits for what can be sent", func(t *testing.T) {
		sink := &recorder{answer: func(_ context.Context, n int, u Update) (StoreResult, error) {
			if u.UID == "gone" {
				return Gone, nil
			}
			if n < 4 {
				return 0, errors.New("not yet")
			}
			return Stored, nil
		}}
		m := started(t, Options{Sinks: []StatusSink{sink}})
		set(t, m, newPod(), message("up"))
		set(t, m, newPod(uid("gone")), message("up"))
		begin := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := m.Flush(short); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 status") {
			t.Errorf("error %v", err)
		}
		if err := m.Flush(t.Context()); err != nil || time.Since(begin) > 10*time.Second {
			t.Errorf("error %v after %v", err, time.Since(begin))
		}
	})

	bubble(t, "Run ends sends in flight and returns", func(t *testing.T) {
		sink := &recorder{answer: func(ctx context.Context, _ int, _ Update) (StoreResult, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}}
		m := NewManager(Options{Sinks: []StatusSink{sink}})
		set(t, m, newPod(), message("before Run"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Run(ctx); err != nil || sink.count() != 1 {
			t.Errorf("error %v, %d sends", err, sink.count())
		}
	})
}

// named is a recorder with a name.
type named struct {
	*recorder
	name string
}

func (n named) Name() string { return n.name }

// 8.8: no two sinks have one name; the first keeps the one it has.
func TestSinkNames(t *testing.T) {
	r := &recorder{}
	sinks := []StatusSink{named{r, "db"}, r, named{r, "db"}, named{r, "db#2"}, named{r, "db"}, r}
	want := []string{"db", "1:*status.recorder", "db#3", "db#2", "db#4", "5:*status.recorder"}
	if got := NewManager(Options{Sinks: sinks}).Sinks(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNothingWaitsForALogger: the line about a sink that could not be told of a forgotten pod may
// take as long as it likes.
func TestNothingWaitsForALogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, logs := make(chan struct{}), 0
		m := started(t, Options{
			Sinks: []StatusSink{SinkFunc(func(context.Context, Update) (StoreResult, error) { return Conflict, nil })},
			Logger: funcr.New(func(_, args string) {
				if strings.Contains(args, "Cannot tell") {
					logs++
					<-release
				}
			}, funcr.Options{}),
		})
		set(t, m, newPod(), message("up"))
		m.Forget("uid-1")
		advance(t, forgottenAge+time.Hour)
		if logs != 1 {
			t.Fatalf("%d lines", logs)
		}
		if !m.mu.TryLock() {
			t.Error("the manager waits for the logger")
		} else {
			m.mu.Unlock()
		}
		close(release)
	})
}

// TestRetryDelay: spec/status.md 8.7.
func TestRetryDelay(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 6: 30 * time.Second, 100: 30 * time.Second} {
		if got := retryDelay(time.Second, 30*time.Second, failures, 0); got != want {
			t.Errorf("%d failures: %v, want %v", failures, got, want)
		}
	}
	if got := retryDelay(time.Second, 30*time.Second, 1, 0.5); got != 1100*time.Millisecond {
		t.Errorf("with jitter: %v", got)
	}
}
