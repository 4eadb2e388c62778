package enginetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/runtime/fake"
)

// TestDrainOfHiddenPodsWithALongGrace: spec/pleg.md R7, R15. A drain of pods that lists lack from the start, and that use their
// grace of 10 s, is no error.
func TestDrainOfHiddenPodsWithALongGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFirstListWorld(t, 6)
		w.hide(time.Now().Add(10*time.Minute), firstListGaps(w)["the whole pod"])
		w.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer}, Effect: fake.Effect{Delay: 10 * time.Second}})
		w.rig = newRig(t, w.rt, w.root).start()
		<-time.After(5 * time.Second)
		if err := w.engine.Drain(t.Context()); err != nil {
			t.Errorf("Drain: %v", err)
		}
		if err := w.running(); err != nil {
			t.Error(err)
		}
	})
}
