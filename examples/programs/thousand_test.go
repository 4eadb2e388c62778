package programs_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podwrighttest"
	"github.com/podwright/podwright/runtime/fake"
)

// TestThousandPods: a harness for the load of a whole node. A tenth of the pods crash twice, the
// agent is killed while the runtime hangs, and later stops fail for a while. Still no
// container is started once too often, and in the end nothing is left.
func TestThousandPods(t *testing.T) {
	const n, crashing = 1000, 100
	o := podwrighttest.Options{
		Programs: map[string]podwrighttest.Program{"crashing": {RunsFor: time.Minute, ExitsWith: 1, Times: 2}},
		Runtime:  fake.Options{MaxCalls: 1000}, // it need not remember all its calls
		Patience: time.Hour,
	}
	podwrighttest.Run(t, o, func(node *podwrighttest.Node) {
		var pods []*v1.Pod
		for i := range n {
			container := "main"
			if i < crashing {
				container = "crashing"
			}
			pods = append(pods, podwrighttest.Pod(fmt.Sprintf("pod-%d", i), container))
		}
		node.Set(pods[:n/2]...)
		running(node, n/2)
		mend := node.Hang(fake.StartContainer, 0)
		node.Set(pods...)
		node.Advance(5 * time.Second)
		node.Restart()
		mend()
		running(node, n)
		node.Advance(3 * time.Minute) // two runs of a minute and the back-off of 10 s
		running(node, n)
		for i, pod := range pods {
			want := 1
			if i < crashing {
				want = 3
			}
			if got := node.Runtime().Facts(pod.UID, pod.Spec.Containers[0].Name).Started; got != want {
				t.Errorf("%s was started %d times, want %d", pod.Name, got, want)
			}
		}

		mend = node.Fail(fake.StopContainer, errors.New("not now"))
		node.Set() // nothing is desired any more
		node.Advance(30 * time.Second)
		mend()
		node.Wait("the node to be empty", func() error {
			containers, err := node.Runtime().ListContainers(t.Context(), nil)
			if pods := node.Engine().Pods(); err != nil || len(containers) > 0 || len(pods) > 0 {
				return fmt.Errorf("%d containers and %d pods are left, %v", len(containers), len(pods), err)
			}
			return nil
		})
	})
}

// running waits until at least so many pods run.
func running(node *podwrighttest.Node, want int) {
	node.Wait(fmt.Sprintf("%d pods to run", want), func() error {
		got := 0
		for _, pod := range node.Engine().Pods() {
			if pod.Status.Phase == v1.PodRunning {
				got++
			}
		}
		if got < want {
			return fmt.Errorf("%d run", got)
		}
		return nil
	})
}
