package enginetest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// lateSandboxes is a runtime that is slow to make sandboxes, and completes calls that the caller
// has given up.
type lateSandboxes struct {
	*fake.Runtime
	// takes returns the time that the sandbox of a pod takes.
	takes func(pod string) time.Duration
	going sync.WaitGroup

	mu  sync.Mutex
	cut int // calls whose caller did not wait for the answer
}

func (r *lateSandboxes) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	done := make(chan struct{})
	var id string
	var err error
	r.going.Go(func() {
		defer close(done)
		<-time.After(r.takes(config.GetMetadata().GetName()))
		id, err = r.Runtime.RunPodSandbox(context.WithoutCancel(ctx), config, handler)
	})
	select {
	case <-done:
		return id, err
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cut++
		return "", context.Cause(ctx)
	}
}

// TestPodDeletedWhileItsSandboxIsMadeLeavesNothing: RT1, RT3: 40 pods are deleted while their
// sandboxes are being made. The engine waits for the runtime, and stops and removes each sandbox,
// even one that the runtime makes long after the caller has given up.
func TestPodDeletedWhileItsSandboxIsMadeLeavesNothing(t *testing.T) {
	const n = 40
	for name, tc := range map[string]struct {
		takes func(i int) time.Duration
		cut   int // calls that are cancelled
		limit time.Duration
	}{
		"around 3 s": {takes: func(i int) time.Duration { return 2700*time.Millisecond + time.Duration(i)*20*time.Millisecond }, limit: 20 * time.Second},
		"a minute":   {takes: func(i int) time.Duration { return time.Minute + time.Duration(i)*77*time.Millisecond }, limit: 90 * time.Second},
		"longer than is waited for": {
			takes: func(i int) time.Duration { return 4*time.Minute + time.Duration(i)*300*time.Millisecond }, cut: n, limit: 6 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := &lateSandboxes{Runtime: fake.New(fake.Options{})}
				defer rt.going.Wait()
				rt.Inject(fake.Fault{Match: fake.Match{Method: fake.ListPodSandbox}, Effect: fake.Effect{Delay: 30 * time.Millisecond}})
				rt.takes = func(pod string) time.Duration {
					var i int
					_, _ = fmt.Sscanf(pod, "web-%d", &i)
					return tc.takes(i)
				}
				r := newRig(t, rt.Runtime, t.TempDir(), func(c *podwright.Config) { c.Runtime = rt }).start()
				var pods []*v1.Pod
				for i := range n {
					pods = append(pods, newPod(fmt.Sprintf("web-%d", i)))
				}
				r.set(pods...)
				<-time.After(200 * time.Millisecond)
				r.set()
				r.within(tc.limit, "all pods to be gone", func() error {
					if left := len(r.engine.Pods()); left > 0 {
						return fmt.Errorf("%d are left", left)
					}
					sandboxes, err := rt.ListPodSandbox(t.Context(), nil)
					if err == nil && len(sandboxes) > 0 {
						err = fmt.Errorf("%d sandboxes", len(sandboxes))
					}
					return err
				})
				rt.going.Wait()
				r.empty(time.Minute)
				if rt.cut != 0 && tc.cut == 0 {
					t.Errorf("%d calls were cancelled", rt.cut)
				}
			})
		})
	}
}
