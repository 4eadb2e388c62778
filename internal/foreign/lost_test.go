package foreign

import (
	"testing"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/problem"
)

// A caller that goes on without an answer that comes at that moment leaves no call behind.
func TestAnswerAtTheMomentACallerGoesOn(t *testing.T) {
	c := New(clock.RealClock{})
	call := Call{Kind: problem.Function, Name: "Veto", Object: "web"}
	for _, second := range []turn{joins, goesOn} {
		q, _ := c.question(call, false, true)     // the first caller, which waits
		again, _ := c.question(call, false, true) // the second one
		if again != q {
			t.Fatal("asked twice")
		}
		c.answered(call, q, 1, nil)
		_, _ = heard[int](c, again, second)
		_, _ = heard[int](c, q, begins)
		if len(c.crowds) != 0 {
			t.Errorf("%v: %+v calls count as hung, and none is", second, c.crowds[q.key.function()])
		}
	}
}
