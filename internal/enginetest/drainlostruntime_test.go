package enginetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// TestDrainAfterALoss: R15, CK5. Jobs had started, and the runtime has lost its data since. A drain at once does not stop them,
// so it does not make them run again.
func TestDrainAfterALoss(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFirstListWorld(t, 6)
				w.rt.LoseRecords()
				if fails {
					w.breakStatus(time.Now().Add(1500*time.Millisecond), fake.Effect{Err: runtime.ErrUnavailable})
				}
				w.rig = newRig(t, w.rt, w.root).start()
				synctest.Wait()
				if err := w.engine.Drain(t.Context()); err != nil {
					t.Errorf("Drain: %v", err)
				}
				<-w.ended
				<-time.After(5 * time.Second)
				w.next()
				<-time.After(20 * time.Second)
				synctest.Wait()
				for _, p := range w.pods {
					f := w.rt.Facts(p.UID, "main")
					if p.Spec.RestartPolicy == v1.RestartPolicyNever && f.Started != 1 {
						t.Errorf("%s: %+v", p.Name, f)
					}
				}
			})
		})
	}
}
