package enginetest_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// TestInitRunsAgainInNewSandboxAndPodStops: IN5. Half of the pods lose their sandbox, and their
// init containers run again for a long time. The statuses say so, and each pod stops when it is
// removed.
func TestInitRunsAgainInNewSandboxAndPodStops(t *testing.T) {
	const n, bad = 10, 5
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
			switch {
			case l.Container == "prepare" && l.Number == 1:
				return fake.Script{Exit: &fake.Exit{After: 2 * time.Second}}
			case l.Container == "prepare":
				return fake.Script{Exit: &fake.Exit{After: time.Hour}}
			}
			return fake.Script{}
		}})
		r := newRig(t, rt, t.TempDir()).start()
		var pods []*v1.Pod
		for i := range n {
			pod := withPolicy(newPod(fmt.Sprintf("web-%02d", i)), v1.RestartPolicyOnFailure)
			pod.Spec.InitContainers = []v1.Container{{Name: "prepare", Image: "app:1"}}
			pods = append(pods, pod)
		}
		r.set(pods...)
		for _, p := range pods {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		for _, p := range pods[:bad] {
			made := rt.Calls(fake.Match{Method: fake.RunPodSandbox, PodUID: p.UID})
			if err := rt.FailSandbox(made[0].SandboxID); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range pods[:bad] {
			r.within(time.Minute, "a status that shows the init container running", func() error {
				if s := r.pod(p.UID).Status; rt.Running(p.UID, "prepare") != 1 || s.InitContainerStatuses[0].State.Running == nil {
					return fmt.Errorf("%+v, %s", s.InitContainerStatuses, r.explain(p.UID))
				}
				return nil
			})
		}
		r.set()
		for i, p := range pods {
			container := "main"
			if i < bad {
				container = "prepare"
			}
			r.within(15*time.Second, p.Name+" to stop", func() error {
				if rt.Running(p.UID, container) > 0 {
					return errors.New(r.explain(p.UID))
				}
				return nil
			})
		}
		r.empty(time.Minute)
		for _, p := range pods {
			if !r.sink.finished(p.UID) {
				t.Errorf("%s: its end was not told", p.Name)
			}
		}
	})
}
