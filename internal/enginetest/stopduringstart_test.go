package enginetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// TestStopLetsAStartEnd: an engine that is stopped in the middle of a start waits for the start, so
// that the only run of a pod is not lost. A runtime that hangs delays the stop only briefly.
func TestStopLetsAStartEnd(t *testing.T) {
	for _, method := range []fake.Method{fake.RunPodSandbox, fake.CreateContainer, fake.StartContainer} {
		for name, effect := range map[string]fake.Effect{"slow": {Delay: time.Second}, "hung": {Hang: true}} {
			t.Run(string(method)+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rt := byContainer(nil)
					root := t.TempDir()
					job := newPod("job")
					job.Spec.RestartPolicy = v1.RestartPolicyNever
					first := newRig(t, rt, root).start()
					remove := rt.Inject(fake.Fault{Match: fake.Match{Method: method}, Effect: effect})
					first.set(job)
					first.within(10*time.Second, "the call", func() error {
						if rt.CallCount(method) == 0 {
							return errors.New("not made yet")
						}
						return nil
					})
					began := time.Now()
					first.stop()
					if took := time.Since(began); took > 5*time.Second {
						t.Errorf("Run ended %v after it was asked to", took)
					}
					calls := rt.Calls(fake.Match{Method: method})
					if failed := calls[0].Err != nil; failed != effect.Hang {
						t.Errorf("the call ended with %v", calls[0].Err)
					}
					remove()

					second := newRig(t, rt, root).start()
					second.set(job)
					second.phase("uid-job", v1.PodRunning, 2*time.Minute)
					if f := rt.Facts("uid-job", "main"); f.Started != 1 {
						t.Errorf("%+v, want one start", f)
					}
				})
			})
		}
	}
}
