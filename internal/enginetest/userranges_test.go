package enginetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
)

// TestEngineMadeEarlyKnowsUserRanges: runtime.md 3.7. An engine made while another one runs on its folder, and run
// after that one has ended, gives a new pod other user IDs than those of the pods that the other one started meanwhile.
func TestEngineMadeEarlyKnowsUserRanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{
			Handlers: []*runtimeapi.RuntimeHandler{{Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}}},
			Script: func(fake.Launch) fake.Script {
				return fake.Script{Crashes: 1, Crash: fake.Exit{After: time.Minute, Code: 1}}
			},
		})
		root := t.TempDir()
		old, next := newRig(t, rt, root), newRig(t, rt, root)
		first, second := newPod("first"), newPod("second")
		first.Spec.HostUsers, second.Spec.HostUsers = ptr.To(false), ptr.To(false)
		old.start()
		old.set(first)
		old.phase(first.UID, v1.PodRunning, 5*time.Second)
		old.stop()
		next.start()
		next.set(first, second)
		next.phase(second.UID, v1.PodRunning, 5*time.Second)
		sandboxes := rt.Calls(fake.Match{Method: fake.RunPodSandbox})
		ids := map[string]bool{}
		for _, c := range sandboxes {
			request := c.Request.(*runtimeapi.RunPodSandboxRequest)
			ids[fmt.Sprint(request.GetConfig().GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions().GetUids())] = true
		}
		if len(sandboxes) != 2 || len(ids) != 2 {
			t.Errorf("%d sandboxes with the user IDs %v, want 2 with different ones", len(sandboxes), ids)
		}
		<-time.After(5 * time.Minute)
		for _, pod := range []*v1.Pod{first, second} {
			if s := next.pod(pod.UID).Status.ContainerStatuses; len(s) != 1 || s[0].RestartCount != 1 || s[0].State.Running == nil {
				t.Errorf("%s does not run again after its crash: %v", pod.Name, s)
			}
		}
	})
}
