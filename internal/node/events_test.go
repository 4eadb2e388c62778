package node

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/timing"
)

// recorderFunc is a recorder.
type recorderFunc func(uid types.UID, text string)

func (f recorderFunc) Eventf(object apiruntime.Object, _, _, _ string, args ...any) {
	f(objectUID(object), fmt.Sprint(args...))
}

func eventOf(e *Events, uid string) {
	e.Eventf(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}, v1.EventTypeNormal, "Reason", "%s", "text")
}

// TestHungRecorderDelaysNoOtherObject: IN6. A recorder that does not return for one object has the events
// of others when Eventf returns; a recorder that returns for none costs its callers 100 ms in 10 s.
func TestHungRecorderDelaysNoOtherObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung, got := make(chan struct{}), make(chan types.UID, 100)
		e := &Events{Clock: clock.RealClock{}, Recorder: recorderFunc(func(uid types.UID, _ string) {
			if strings.HasPrefix(string(uid), "hangs") {
				<-hung
			}
			<-time.After(time.Millisecond)
			got <- uid
		})}
		eventOf(e, "hangs")
		<-time.After(time.Minute)
		for i := range 50 {
			eventOf(e, "web")
			if len(got) != i+1 {
				t.Fatalf("%d events taken, want %d", len(got), i+1)
			}
		}
		began := time.Now()
		for i := range 1000 {
			eventOf(e, fmt.Sprint("hangs-", i))
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("a crowd cost %v", took)
		}
		go func() { <-time.After(time.Minute); close(hung) }()
		for range 50 + 1 + 1000 {
			<-got
		}
	})
}

// TestRecorderThatExits: IN6. A recorder that ends the goroutine that calls it, as a test's may, loses that event and no other.
func TestRecorderThatExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		taken := 0
		e := &Events{
			Clock:  clock.RealClock{},
			Logger: funcr.New(func(_, args string) { lines.WriteString(args + "\n") }, funcr.Options{}),
			Recorder: recorderFunc(func(types.UID, string) {
				if taken++; taken <= 2*eventCalls {
					runtime.Goexit()
				}
			}),
		}
		for range 3 * eventCalls {
			eventOf(e, "a")
			synctest.Wait()
		}
		began := time.Now()
		if e.Leave(); taken != 3*eventCalls || time.Since(began) > 0 || strings.Count(lines.String(), "ended its goroutine") != 2*eventCalls {
			t.Errorf("%d events were taken, the end took %v, log %q", taken, time.Since(began), lines.String())
		}
	})
}

// TestEndWaitsForTheRecorder: IN6. The end of a run waits for the events that are on their way, for 5 s, and logs an object of which
// the recorder takes none.
func TestEndWaitsForTheRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		hung, taken := make(chan struct{}), 0
		e := &Events{
			Clock:  clock.RealClock{},
			Logger: funcr.New(func(_, args string) { lines.WriteString(args + "\n") }, funcr.Options{}),
			Recorder: recorderFunc(func(uid types.UID, _ string) {
				if uid == "hangs" {
					<-hung
					return
				}
				<-time.After(time.Second)
				taken++
			}),
		}
		e.Leave() // nothing to wait for
		for range 3 {
			eventOf(e, "slow")
		}
		if e.Leave(); taken != 3 || lines.Len() > 0 {
			t.Errorf("%d events taken, log %q", taken, lines.String())
		}
		eventOf(e, "hangs")
		began := time.Now()
		if e.Leave(); time.Since(began) != 5*time.Second || !strings.Contains(lines.String(), `"uid"="hangs"`) {
			t.Errorf("after %v: %q", time.Since(began), lines.String())
		}
		close(hung)
	})
}

// TestDeafRecorderIsBounded: IN6. A recorder that takes nothing costs 64 goroutines and one problem, however many objects
// there are; of the events, the first 4,096 wait.
func TestDeafRecorderIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		hung := make(chan struct{})
		var calls, taken atomic.Int32
		e := &Events{
			Clock:  clock.RealClock{},
			Logger: funcr.New(func(_, args string) { lines.WriteString(args + "\n") }, funcr.Options{}),
			Recorder: recorderFunc(func(types.UID, string) {
				calls.Add(1)
				<-hung
				taken.Add(1)
			}),
		}
		began := time.Now()
		for i := range 10_000 {
			eventOf(e, fmt.Sprintf("%05d", i))
			<-time.After(time.Second)
		}
		if n := calls.Load(); n != 64 {
			t.Errorf("%d calls hang", n)
		}
		got := e.Problems()
		if len(got) != 1 || !got[0].Since.Equal(began) || got[0].Waits != "the event recorder to take an event of 00000, 00001, 00002, 00003, 00004, and 59 more" ||
			!strings.HasSuffix(got[0].Advice, "4096 events queue up, and 5840 were dropped") {
			t.Errorf("%+v", got)
		}
		close(hung)
		synctest.Wait()
		if n := taken.Load(); n != 64+4096 || e.Problems() != nil || len(e.queues)+len(e.line)+e.waiting+e.calls != 0 {
			t.Errorf("%d events taken, %d queues and %d calls are left", n, len(e.queues), e.calls)
		}
		if got := lines.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"count"=5840`) {
			t.Errorf("log %q", got)
		}
	})
}

// TestLoggerThatBlocksHoldsUpNoEvent: IN6. What is logged about the recorder is logged without the lock that every
// caller takes, and the end of a run waits for that line.
func TestLoggerThatBlocksHoldsUpNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung, log := make(chan struct{}), make(chan struct{})
		var e *Events
		var lines, taken atomic.Int32
		e = &Events{
			Clock:    clock.RealClock{},
			Recorder: recorderFunc(func(types.UID, string) { <-hung; taken.Add(1) }),
			Logger: funcr.New(func(string, string) {
				if timing.Ended(log) {
					return // the others run too
				}
				if !e.mu.TryLock() { // nothing else runs
					t.Error("logged with the lock held")
					return
				}
				e.mu.Unlock()
				lines.Add(1)
				<-log
			}, funcr.Options{}),
		}
		for range 1 + eventsKept + 5 {
			eventOf(e, "a")
		}
		left := make(chan struct{})
		go func() { e.Leave(); close(left) }()
		<-time.After(foreign.LeaveLimit)
		synctest.Wait() // Leave tells which goroutine is lost, and blocks
		close(hung)
		synctest.Wait() // and so does what tells what was dropped
		if lines.Load() != 2 || taken.Load() != 1+eventsKept {
			t.Fatalf("%d lines, %d events taken", lines.Load(), taken.Load())
		}
		eventOf(e, "b")
		if taken.Load() != 1+eventsKept+1 || e.Problems() != nil {
			t.Errorf("%d events taken, problems %+v", taken.Load(), e.Problems())
		}
		again := make(chan struct{})
		go func() { e.Leave(); close(again) }()
		synctest.Wait()
		select {
		case <-again:
			t.Error("the end did not wait for the line about dropped events")
		default:
		}
		close(log)
		<-left
		<-again
	})
}

// TestEventsAreBounded: spec/runtime.md 22.4.
func TestEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan string, 1)
		e := &Events{Clock: clock.RealClock{}, Recorder: recorderFunc(func(_ types.UID, text string) { got <- text })}
		e.Eventf(&v1.Pod{}, v1.EventTypeWarning, "Failed", "no image %s: not found", strings.Repeat("x", 1<<20))
		if text := <-got; len(text) > 1024 || !strings.HasSuffix(text, "not found") {
			t.Errorf("%d bytes", len(text))
		}
	})
}
