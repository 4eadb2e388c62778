package enginetest_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/runtime/fake"
)

// TestRestartCountSurvivesLostContainers: status.md 3.7, runtime.md 2.8. A container has ended,
// the start of the next one is cut off, and the runtime and the folder of logs have nothing of
// either when the next agent starts it again. That is its second run, and it is counted.
func TestRestartCountSurvivesLostContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
			switch l.Number {
			case 1:
				return fake.Script{Exit: &fake.Exit{After: time.Second, Code: 3}}
			case 2:
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
