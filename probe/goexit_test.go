package probe_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/podwright/podwright/probe"
)

// TestHandlerMayEndItsGoroutine is 2.8: runtime.Goexit counts as a panic. The probe goes on, and so
// do the probes that wait for its slot; the end of Run waits for nothing.
func TestHandlerMayEndItsGoroutine(t *testing.T) {
	bubble(t, "Goexit", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) { o.NetworkSlots = 1 })
		r.does(func(context.Context, probe.Target) (probe.Outcome, error) {
			runtime.Goexit()
			return good, nil
		})
		for _, name := range []string{"a", "b"} {
			p := newPod(name, liveness(every(1)))
			r.publish(p, up(name, true, time.Now()))
			r.m.AddPod(p)
		}
		r.start()
		r.pass(4500 * time.Millisecond)
		if runs := r.take(); len(runs) != 10 {
			t.Errorf("%d runs", len(runs))
		}
		if got := r.result(probe.Liveness, "a"); got != "Success" {
			t.Errorf("result %s", got)
		}
		if said := r.said(); len(said) == 0 || !strings.Contains(said[0], "the handler panicked: it called runtime.Goexit") {
			t.Errorf("said %q", said)
		}
		began := time.Now()
		r.stop()
		if took := time.Since(began); took != 0 {
			t.Errorf("the end took %v", took)
		}
	})
}
