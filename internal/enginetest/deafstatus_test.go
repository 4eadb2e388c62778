package enginetest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// deafStatus is a runtime whose Status does not return while it is deaf, whatever its context says.
type deafStatus struct {
	*fake.Runtime
	deaf  atomic.Bool
	calls atomic.Int32
	goes  chan struct{}
}

func (d *deafStatus) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	if d.deaf.Load() {
		d.calls.Add(1)
		<-d.goes
	}
	return d.Runtime.Status(ctx, verbose)
}

// TestDeafStatusHoldsNothingUp: IN2, IN6, RH2. A runtime's Status ignores the end of its context: health and problems say so, one
// call is made, not one per attempt, and the engine goes on when it answers. The end of a run, and a drain, do not wait for it.
func TestDeafStatusHoldsNothingUp(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"answers", "run", "drain"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { endWithDeafStatus(t, end) })
		})
	}
}

func endWithDeafStatus(t *testing.T, end string) {
	d := &deafStatus{Runtime: fake.New(fake.Options{}), goes: make(chan struct{})}
	r := newRig(t, d.Runtime, t.TempDir(), func(c *podwright.Config) {
		c.Runtime, c.ImageGC = d, &podwright.ImageGC{Dir: t.TempDir(), Period: time.Minute}
	}).start()
	answer := sync.OnceFunc(func() { d.deaf.Store(false); close(d.goes) })
	t.Cleanup(answer) // before the engine is stopped
	web := newPod("web")
	r.set(web)
	r.phase(web.UID, v1.PodRunning, 5*time.Second)
	d.deaf.Store(true)
	r.within(45*time.Second, "health to say it", func() error {
		if err := r.engine.Healthy(); err == nil || !strings.Contains(err.Error(), "has not returned") {
			return fmt.Errorf("health: %w", err)
		}
		return nil
	})
	named(r, "waits for Status to return")
	<-time.After(10 * time.Minute)
	synctest.Wait()
	if calls := d.calls.Load(); calls > 2 { // of health, and of the collection of images
		t.Errorf("%d calls hang", calls)
	}
	if d.Running(web.UID, "main") != 1 {
		t.Error("the pod was disturbed")
	}
	switch end {
	case "answers":
		answer()
		r.within(5*time.Second, "health", r.engine.Healthy)
		return
	case "run":
		r.cancel()
	case "drain":
		go func() { _ = r.engine.Drain(t.Context()) }()
	}
	select {
	case <-r.ended:
	case <-time.After(time.Minute):
		t.Error("Run has not returned")
	}
	if left := d.Running(web.UID, "main"); (left == 0) != (end == "drain") {
		t.Errorf("%d containers run", left)
	}
	answer()
}
