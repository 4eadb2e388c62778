package enginetest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// unwitnessed is a runtime that has lost how containers ended, and finds out that they have whenever it is asked, like
// containerd after a loss of power.
type unwitnessed struct{ *fake.Runtime }

func (u unwitnessed) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	s, err := u.Runtime.ContainerStatus(ctx, id, verbose)
	if s.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
		s.Status.ExitCode, s.Status.Reason, s.Status.Message, s.Status.FinishedAt = 255, "Unknown", "", time.Now().UnixNano()
	}
	return s, err
}

// TestKnownEndOutlivesTheRuntimesRecord: status.md 9.1 (a), 9.4: a container that had done its work does not run again,
// and its exit code stays, because the runtime has lost how it ended. Of one whose end was not known, that is what counts.
func TestKnownEndOutlivesTheRuntimesRecord(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newHost(t, byContainer(map[string]fake.Script{"done": {Exit: &fake.Exit{After: time.Second}}}))
				pod := func() *v1.Pod { return withPolicy(newPod("web", "done", "app"), policy) }
				end := func(r *rig) *v1.ContainerStateTerminated {
					for _, c := range r.pod("uid-web").Status.ContainerStatuses {
						if c.Name == "done" {
							return c.State.Terminated
						}
					}
					return nil
				}
				first := n.agent()
				first.set(pod())
				first.phase("uid-web", v1.PodRunning, time.Minute)
				<-time.After(time.Minute)
				want := end(first)
				if want == nil || want.ExitCode != 0 {
					t.Fatalf("at first: %+v", want)
				}
				n.kill(first)
				for range 2 {
					r := n.agent(func(c *podwright.Config) { c.Runtime = unwitnessed{n.rt} })
					r.set(pod())
					r.phase("uid-web", v1.PodRunning, time.Minute)
					<-time.After(5 * time.Minute)
					if got := end(r); !equality.Semantic.DeepEqual(got, want) {
						t.Errorf("shown: %+v, want %+v", got, want)
					}
					n.kill(r)
				}
				if s := starts(n.rt, "uid-web"); s != 2 {
					t.Errorf("%d starts, want one of each container", s)
				}
				c, _ := n.records()["uid-web"].Container("done")
				if len(c.Ends) != 1 || c.Ends[0].ExitCode != 0 {
					t.Errorf("recorded: %+v", c.Ends)
				}
			})
		})
	}
}
