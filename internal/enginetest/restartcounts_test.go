package enginetest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/runtime/fake"
)

// TestRestartCountSurvivesLostContainers: status.md 3.7, runtime.md 2.8. A container has ended, the
// start of its successor is cut off, and neither the runtime nor the log folder has any trace of
// them when the next agent starts the container again. That is its second run, and it counts.
func TestRestartCountSurvivesLostContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cut atomic.Bool
		cut.Store(true)
		n := newHost(t, fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
			switch {
			case l.Number == 1:
				return fake.Script{Exit: &fake.Exit{After: time.Second, Code: 3}}
			case cut.Load(): // the next attempts, too
				return fake.Script{StartErr: errors.New(cutOff)}
			}
			return fake.Script{}
		}}))
		r := n.agent()
		r.set(newPod("web"))
		r.within(time.Minute, "the second start to be cut off", func() error {
			if n.rt.Facts("uid-web", "main").Created < 2 {
				return errors.New("not yet")
			}
			return nil
		})
		<-time.After(3 * time.Second)
		n.kill(r)
		cut.Store(false)
		n.rt.LoseRecords()
		if err := os.RemoveAll(filepath.Join(n.root, "logs")); err != nil {
			t.Fatal(err)
		}
		r = n.agent()
		r.set(newPod("web"))
		r.within(time.Minute, "the third start", func() error {
			if n.rt.Running("uid-web", "main") == 0 {
				return errors.New("not yet")
			}
			return nil
		})
		<-time.After(5 * time.Second)
		c := r.pod("uid-web").Status.ContainerStatuses[0]
		if end := c.LastTerminationState.Terminated; c.RestartCount != 1 || end == nil || end.ExitCode != 3 {
			t.Errorf("restart count %d, last end %+v", c.RestartCount, end)
		}
	})
}

// TestShownRestartCountSurvivesAKill: status.md 3.7, CK10. An agent is killed a moment after it showed
// a restart, when the runtime has lost the new container, or describes it slowly: the
// next agent never shows fewer restarts, not even before it has read the pod.
func TestShownRestartCountSurvivesAKill(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost %v", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newHost(t, fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
					if l.Number == 1 {
						return fake.Script{Exit: &fake.Exit{After: 3 * time.Second, Code: 3}}
					}
					return fake.Script{}
				}}))
				shown := func(r *rig) (count int32, id string) {
					if p := r.pod("uid-web"); p != nil && len(p.Status.ContainerStatuses) > 0 {
						return p.Status.ContainerStatuses[0].RestartCount, p.Status.ContainerStatuses[0].ContainerID
					}
					return -1, ""
				}
				r := n.agent()
				r.set(newPod("web"))
				var id string
				r.within(time.Minute, "the restart", func() (err error) {
					count, now := shown(r)
					if id = now; count != 1 {
						err = fmt.Errorf("%d restarts", count)
					}
					return err
				})
				<-time.After(100 * time.Millisecond)
				n.kill(r)
				if lost {
					_, id, _ = strings.Cut(id, "://")
					if err := n.rt.RemoveContainer(t.Context(), id); err != nil {
						t.Fatal(err)
					}
				} else {
					n.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.ContainerStatus}, Effect: fake.Effect{Delay: 3 * time.Second}})
				}
				r = n.agent()
				r.set(newPod("web"))
				for range 300 {
					synctest.Wait()
					if count, _ := shown(r); count == 0 {
						t.Fatal("no restarts are shown")
					}
					<-time.After(100 * time.Millisecond)
				}
				want := int32(1)
				if lost {
					want = 2
				}
				if count, _ := shown(r); count != want {
					t.Errorf("%d restarts in the end, want %d", count, want)
				}
			})
		})
	}
}
