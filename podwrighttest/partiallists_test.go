package podwrighttest_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podwrighttest"
	"github.com/podwright/podwright/runtime/fake"
)

// pleg.md R7: while the lists of the runtime lack containers or sandboxes, nothing is started a second time, and no pod
// is believed ended.
func TestPartialListsRunNothingTwice(t *testing.T) {
	programs := map[string]podwrighttest.Program{"first": {RunsFor: time.Second}}
	for _, method := range []fake.Method{fake.ListContainers, fake.ListPodSandbox} {
		for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyOnFailure, v1.RestartPolicyAlways} {
			for _, d := range []time.Duration{1500 * time.Millisecond, 10 * time.Second} {
				t.Run(fmt.Sprintf("%s %s %v", method, policy, d), func(t *testing.T) {
					podwrighttest.Run(t, podwrighttest.Options{Programs: programs}, func(n *podwrighttest.Node) {
						job := podwrighttest.Pod("job")
						job.Spec.RestartPolicy = policy
						if policy != v1.RestartPolicyAlways {
							job.Spec.Containers = append(job.Spec.Containers, *job.Spec.Containers[0].DeepCopy())
							job.Spec.Containers[1].Name = "first" // it has ended when the lists begin to lack it
						}
						n.Add(job)
						n.WaitPhase("job", v1.PodRunning)
						n.Advance(5 * time.Second)
						mend := n.Runtime().Inject(fake.Fault{Match: fake.Match{Method: method}, Effect: fake.Effect{Keep: func(string) bool { return false }}})
						n.Advance(d)
						mend()
						n.Advance(2 * time.Minute)
						for _, c := range job.Spec.Containers {
							if started := n.Runtime().Facts(job.UID, c.Name).Started; started != 1 {
								t.Errorf("%s was started %d times", c.Name, started)
							}
						}
						if phase := n.Pod("job").Status.Phase; phase != v1.PodRunning {
							t.Errorf("phase %s, events %q", phase, n.Events("job"))
						}
					})
				})
			}
		}
	}
}
