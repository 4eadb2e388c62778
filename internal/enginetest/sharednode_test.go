package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// TestSharedLogFolderIsRefused: ND8: if two engines wrote their logs into one folder, each would
// take the other's logs for those of gone pods. The second engine says so and does not run. With
// its own folder it runs, and does not touch the pods of the first one.
func TestSharedLogFolderIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, logs := fake.New(fake.Options{WriteLogs: true}), t.TempDir()
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Storage.LogDir = logs }).start()
		r.set(newPod("web"))
		r.phase("uid-web", v1.PodRunning, time.Minute)
		second := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Storage.LogDir, c.Node.Name = logs, "n2" })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := second.engine.Run(ctx); !errors.Is(err, podwright.ErrInUse) || !strings.Contains(err.Error(), logs) {
			t.Errorf("the second engine: %v", err)
		}
		other := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Node.OwnerID = "other" }).start()
		other.set(newPod("foreign"))
		other.phase("uid-foreign", v1.PodRunning, time.Minute)
		other.set()
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if rt.Running("uid-web", "main") != 1 || starts(rt, "uid-web") != 1 || rt.Running("uid-foreign", "main") != 0 {
			t.Error("a pod of the other engine was touched")
		}
		if left, err := filepath.Glob(filepath.Join(logs, "*_uid-web", "main", "0.log")); err != nil || len(left) != 1 {
			t.Errorf("logs %v, err %v", left, err)
		}
	})
}

// TestTotalLimitLosesNoEnd: cleanup edge case 20, CG4, CG9, HI8: a limit for the whole node costs
// pods only the last records of their containers: pods that run once do not run again, and the
// statuses show how all of them ended.
func TestTotalLimitLosesNoEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second, Code: 3}}}))
		limited := func(c *podwright.Config) { c.Storage.DeadContainers.Total = 2 }
		var wanted []*v1.Pod
		for i := range 6 {
			wanted = append(wanted, withPolicy(newPod(fmt.Sprint("p", i), "job", "server"), v1.RestartPolicyNever))
		}
		check := func(r *rig) {
			t.Helper()
			r.within(5*time.Minute, "two records of dead containers", func() error {
				list, err := n.rt.ListContainers(t.Context(), &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_EXITED}})
				if len(list) != 2 {
					return fmt.Errorf("%d, %v", len(list), err)
				}
				return nil
			})
			<-time.After(5 * time.Minute)
			synctest.Wait()
			for _, p := range wanted {
				c := r.pod(p.UID).Status.ContainerStatuses[0]
				if end := c.State.Terminated; end == nil || end.ExitCode != 3 || starts(n.rt, p.UID) != 2 || n.rt.Running(p.UID, "server") != 1 {
					t.Errorf("%s: %d starts, %+v", p.Name, starts(n.rt, p.UID), c)
				}
			}
		}
		first := n.agent(limited)
		first.set(wanted...)
		for _, p := range wanted {
			first.phase(p.UID, v1.PodRunning, time.Minute)
		}
		check(first)
		n.kill(first)
		second := n.agent(limited)
		second.set(wanted...)
		for _, p := range wanted {
			second.phase(p.UID, v1.PodRunning, time.Minute)
		}
		check(second)
	})
}
