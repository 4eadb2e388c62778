package enginetest_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/internal/recovery"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// running returns an error that names a container that runs.
func (w *firstListWorld) running() error {
	for _, p := range w.pods {
		for _, c := range []string{"main", "other"} {
			if n := w.rt.Running(p.UID, c); n > 0 {
				return fmt.Errorf("%s/%s runs", p.Name, c)
			}
		}
	}
	return nil
}

// TestDrainAfterAStart: spec/pleg.md R7, R15. An agent that is drained when it has just started, before a source has answered,
// stops its pods, although the lists of the runtime, which has just started too, lack them.
func TestDrainAfterAStart(t *testing.T) {
	t.Parallel()
	for _, gap := range []string{"one container", "all containers", "the sandbox", "the whole pod"} {
		for name, effect := range map[string]*fake.Effect{
			"": nil, ", status fails": {Err: runtime.ErrUnavailable}, ", status hangs": {Hang: true},
		} {
			for _, after := range []time.Duration{0, 5 * time.Second} {
				t.Run(fmt.Sprintf("%s%s, after %v", gap, name, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newFirstListWorld(t, 30)
						w.hide(time.Now().Add(10*time.Minute), firstListGaps(w)[gap])
						if effect != nil {
							w.breakStatus(time.Now().Add(1500*time.Millisecond), *effect)
						}
						w.rig = newRig(t, w.rt, w.root).start()
						<-time.After(after)
						synctest.Wait()
						began := time.Now()
						err := w.engine.Drain(t.Context())
						if err != nil {
							t.Errorf("Drain: %v", err)
						}
						if err := w.running(); err != nil {
							t.Error(err)
						}
						if took := time.Since(began); took > 2*time.Minute {
							t.Errorf("it took %v", took)
						}
					})
				})
			}
		}
	}
}

// TestDrainBeforeTheRecords: R15. A drain is not over before the records are read: without them it is not known what lists
// lack. Records that cannot be read at all are an error.
func TestDrainBeforeTheRecords(t *testing.T) {
	t.Parallel()
	for _, readable := range []bool{true, false} {
		t.Run(fmt.Sprint("readable ", readable), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, open, slow := &checkpointtest.Disk{}, make(chan struct{}), make(chan struct{})
				close(open)
				records := func(answers <-chan struct{}) func(*podwright.Config) {
					return func(c *podwright.Config) { c.Checkpoints.Store = slowRecords{checkpoint.NewFiles(disk), answers} }
				}
				w := newFirstListWorld(t, 6, records(open))
				w.hide(time.Now().Add(10*time.Minute), firstListGaps(w)["the whole pod"])
				if readable {
					time.AfterFunc(15*time.Second+500*time.Millisecond, func() { close(slow) }) // longer than the start waits
				}
				w.rig = newRig(t, w.rt, w.root, records(slow)).start()
				<-time.After(11 * time.Second)
				err := w.engine.Drain(t.Context())
				if readable && err != nil || !readable && !errors.Is(err, recovery.ErrNotLoaded) {
					t.Errorf("Drain: %v", err)
				}
				if err := w.running(); readable != (err == nil) {
					t.Error(err)
				}
			})
		})
	}
}

// TestDrainOfPodsWithoutAView: V8, R15. Pods that a source wants have workers. While lists lack all of a pod from the start, its
// worker has no view of it: it is told to stop after 10 s, by what was read of it.
func TestDrainOfPodsWithoutAView(t *testing.T) {
	t.Parallel()
	for _, gap := range []string{"one container", "all containers", "the sandbox", "the whole pod"} {
		for _, after := range []time.Duration{0, 5 * time.Second} {
			t.Run(fmt.Sprintf("%s, after %v", gap, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newFirstListWorld(t, 30)
					w.hide(time.Now().Add(10*time.Minute), firstListGaps(w)[gap])
					w.next()
					<-time.After(after)
					synctest.Wait()
					began := time.Now()
					if err := w.engine.Drain(t.Context()); err != nil {
						t.Errorf("Drain: %v", err)
					}
					if err := w.running(); err != nil {
						t.Error(err)
					}
					if took := time.Since(began); took > 2*time.Minute {
						t.Errorf("it took %v", took)
					}
				})
			})
		}
	}
}

// TestShutdownOfPodsWithoutAView: V8, R15. The same for a shutdown, which says what has not stopped in time.
func TestShutdownOfPodsWithoutAView(t *testing.T) {
	t.Parallel()
	for _, source := range []bool{true, false} {
		t.Run(fmt.Sprint("a source ", source), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFirstListWorld(t, 30)
				w.hide(time.Now().Add(10*time.Minute), firstListGaps(w)["the whole pod"])
				w.rig = newRig(t, w.rt, w.root).start()
				if source {
					w.set(w.pods...)
				}
				<-time.After(5 * time.Second)
				began := time.Now()
				report, err := w.engine.Shutdown(t.Context(), shutdown.Plan{})
				if err != nil {
					t.Error(err)
				}
				for _, p := range report.Pods {
					if running := w.rt.Running(p.UID, "main") + w.rt.Running(p.UID, "other"); running > 0 && p.Problem == "" {
						t.Errorf("%s runs, and the report does not say so", p.Name)
					}
				}
				<-time.After(30*time.Second - time.Since(began))
				if err := w.running(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestShutdownWithGaps: R7. A shutdown of the node stops what the lists of the runtime have begun to lack.
func TestShutdownWithGaps(t *testing.T) {
	t.Parallel()
	for _, gap := range []string{"one container", "all containers", "the sandbox", "the whole pod"} {
		for _, source := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, a source %v", gap, source), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newFirstListWorld(t, 6)
					w.rig = newRig(t, w.rt, w.root).start()
					if source {
						w.set(w.pods...)
					}
					<-time.After(5 * time.Second)
					w.hide(time.Now().Add(10*time.Minute), firstListGaps(w)[gap])
					if _, err := w.engine.Shutdown(t.Context(), shutdown.Plan{}); err != nil {
						t.Error(err)
					}
					if err := w.running(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
