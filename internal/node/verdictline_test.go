package node

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/wallclocktest"
	"github.com/podwright/podwright/syncloop/admission"
)

// TestHandlersJudgeOnePodAfterTheOther: AD1, IN6. While a verdict is open, no other pod is asked
// about, for half a second at most, and not at all once four such waits in 10 s came to nothing. A
// verdict that has arrived keeps its turn until it is used.
func TestHandlersJudgeOnePodAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		var told atomic.Int32
		handlers := newUsers().Handlers([]admission.Handler{admission.HandlerFunc(func(r admission.Request) admission.Verdict {
			switch r.Pod.Name {
			case "slow":
				<-time.After(400 * time.Millisecond)
			case "hangs":
				<-hung
			}
			return admission.Verdict{}
		})}, func(types.UID) { told.Add(1) })
		ask := func(name, uid string) string {
			_, err := admission.Judge(handlers, admission.Request{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}})
			var behind interface{ Behind() bool }
			var open *foreign.UnansweredError
			switch {
			case errors.As(err, &behind) && behind.Behind():
				return "behind"
			case errors.As(err, &open):
				return "open"
			}
			return fmt.Sprint(err)
		}
		steps := []struct {
			after     time.Duration
			name, uid string
			want      string
		}{
			{0, "prompt", "p1", "<nil>"},
			{0, "slow", "s1", "open"},
			{0, "prompt", "p1", "behind"},
			{0, "slow", "s1", "open"},
			{600 * time.Millisecond, "prompt", "p1", "behind"}, // answered, and not taken up
			{0, "slow", "s1", "<nil>"},
			{0, "prompt", "p1", "<nil>"},
			{0, "slow", "s2", "open"},
			{2 * time.Second, "prompt", "p1", "<nil>"}, // s2 was never taken up
			{0, "hangs", "h1", "open"},
			{400 * time.Millisecond, "prompt", "p1", "behind"},
			{200 * time.Millisecond, "hangs", "h1", "open"},
			{0, "prompt", "p1", "<nil>"},
			{0, "hangs", "h2", "open"},
			{0, "hangs", "h3", "behind"},
			{time.Second, "hangs", "h3", "open"},
			{time.Second, "hangs", "h4", "open"}, // the crowd: four turns came to nothing
			{0, "hangs", "h5", "open"},
			{0, "prompt", "p1", "<nil>"},
			{10 * time.Second, "hangs", "h6", "open"},
			{0, "prompt", "p1", "behind"},
			{time.Second, "prompt", "p1", "<nil>"},
		}
		for i, s := range steps {
			<-time.After(s.after)
			synctest.Wait()
			if got := ask(s.name, s.uid); got != s.want {
				t.Errorf("step %d, %s: %s, want %s", i, s.uid, got, s.want)
			}
		}
		for i := range 1024 {
			ask("hangs", fmt.Sprint("crowd", i))
			<-time.After(time.Second)
		}
		<-time.After(15 * time.Second)
		if got, next := ask("hangs", "trial"), ask("prompt", "p1"); got != "open" || next != "behind" {
			t.Errorf("a handler that is tried again: %s, %s, want that the pod has the turn", got, next)
		}
		<-time.After(time.Second)
		if got, next := ask("hangs", "beyond"), ask("prompt", "p1"); got != "open" || next != "open" {
			t.Errorf("a handler that is not called now: %s, %s, want that no pod has a turn", got, next)
		}
		if told.Load() < 6 {
			t.Errorf("told %d times", told.Load())
		}
		close(hung)
	})
}

// TestTurnEndsAlthoughTheClockIsSetBack: IN6. A clock without a monotonic reading that is set back lengthens no turn.
func TestTurnEndsAlthoughTheClockIsSetBack(t *testing.T) {
	for _, back := range []time.Duration{50 * time.Millisecond, time.Hour} {
		t.Run(back.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hung := make(chan struct{})
				defer close(hung)
				c := &wallclocktest.Clock{}
				u := Users{Calls: foreign.New(c), Clock: c}
				handlers := u.Handlers([]admission.Handler{admission.HandlerFunc(func(r admission.Request) admission.Verdict {
					if r.Pod.Name == "hangs" {
						<-hung
					}
					return admission.Verdict{}
				})}, func(types.UID) {})
				ask := func(name string) error {
					_, err := admission.Judge(handlers, admission.Request{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}})
					return err
				}
				if err := ask("hangs"); !errors.As(err, new(*foreign.UnansweredError)) {
					t.Fatal(err)
				}
				<-time.After(100 * time.Millisecond)
				c.Set(-back)
				<-time.After(turnLimit - 100*time.Millisecond)
				synctest.Wait()
				if err := ask("prompt"); err != nil {
					t.Errorf("half a second later: %v", err)
				}
			})
		})
	}
}
