package node

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/runtime/cri"
)

// hangingExec is a runtime whose commands do not end.
type hangingExec struct{ cri.RuntimeService }

func (hangingExec) ExecSync(ctx context.Context, _ string, _ []string, _ time.Duration) (stdout, stderr []byte, err error) {
	<-ctx.Done()
	return nil, nil, ctx.Err()
}

// TestHookThatHangsIsNoFaultOfTheRuntime: IN2. Only hooks run commands without a timeout, and what hangs is
// mostly the command: the advice names it first.
func TestHookThatHangsIsNoFaultOfTheRuntime(t *testing.T) {
	for name, c := range map[string]struct {
		timeout, listed time.Duration
		hook            bool
	}{
		"hook":  {0, problem.SetupLimit + problem.CallLimit, true},
		"probe": {time.Second, time.Second + problem.CallLimit, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := foreign.New(clock.RealClock{})
				ctx, cancel := context.WithCancel(foreign.ForPod(t.Context(), "u"))
				defer cancel()
				go func() { _, _, _ = WatchRuntime(hangingExec{}, calls).ExecSync(ctx, "c", []string{"sleep"}, c.timeout) }()
				<-time.After(c.listed - time.Second)
				synctest.Wait()
				if got := calls.Problems(); len(got) != 0 {
					t.Errorf("too early: %v", got)
				}
				<-time.After(time.Second)
				got := calls.Problems()
				if len(got) != 1 || got[0].UID != "u" || strings.HasPrefix(got[0].Advice, "look at what the command of the pod's hook waits for") != c.hook {
					t.Errorf("%v", got)
				}
			})
		})
	}
}
