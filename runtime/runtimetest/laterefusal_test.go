package runtimetest_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/fake/faketest"
	"github.com/podwright/podwright/runtime/runtimetest"
)

// lateRefuser opens an event stream and refuses it some time later, as a CRI runtime
// without one does.
type lateRefuser struct {
	*fake.Runtime
	after time.Duration
}

func (r lateRefuser) GetContainerEvents(ctx context.Context, _ chan *runtimeapi.ContainerEventResponse, up func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	up(nil)
	timer := time.NewTimer(r.after)
	defer timer.Stop()
	select {
	case <-timer.C:
		return runtime.ErrUnimplemented
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A runtime without an event stream skips every case about one, however late it says so.
func TestLateRefusalOfStreamSkips(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, 10 * time.Second} {
		for _, c := range runtimetest.Cases() {
			if !strings.HasPrefix(c.Name, "event/") {
				continue
			}
			skipped := false
			t.Run(after.String()+"/"+c.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					defer func() { skipped = t.Skipped() }()
					c.Run(t, func(*testing.T) runtimetest.Subject {
						f := fake.New(faketest.Options())
						return faketest.Subject(lateRefuser{f, after}, f)
					})
				})
			})
			if !skipped {
				t.Errorf("%s was not skipped by a refusal after %v", c.Name, after)
			}
		}
	}
}
