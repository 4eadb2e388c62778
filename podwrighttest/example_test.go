package podwrighttest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/podwrighttest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
)

// threeLines: a pod comes up.
func threeLines(t *testing.T) {
	podwrighttest.Run(t, podwrighttest.Options{}, func(n *podwrighttest.Node) {
		n.Add(podwrighttest.Pod("web"))
		n.WaitPhase("web", v1.PodRunning)
	})
}

// crashLoop: a container fails three times before it stays up. Its back-off takes minutes,
// the test milliseconds.
func crashLoop(t *testing.T) {
	o := podwrighttest.Options{Programs: map[string]podwrighttest.Program{
		"main": {RunsFor: 2 * time.Second, ExitsWith: 1, Times: 3},
	}}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		n.Add(podwrighttest.Pod("web"))
		n.WaitPhase("web", v1.PodRunning)
		n.Advance(5 * time.Minute)
		if got := n.Pod("web").Status.ContainerStatuses[0].RestartCount; got != 3 {
			t.Errorf("%d restarts, want 3", got)
		}
	})
}

// stubborn: programs may be data. A container that ignores SIGTERM uses up the whole grace
// period of its pod.
func stubborn(t *testing.T) {
	programs, err := podwrighttest.ParsePrograms([]byte(`{
		"web/main": {"readyAfter": "5s", "stopsIn": "2s"},
		"sidecar":  {"ignoresTERM": true}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	podwrighttest.Run(t, podwrighttest.Options{Programs: programs}, func(n *podwrighttest.Node) {
		n.Add(podwrighttest.Pod("web", "main", "sidecar"))
		n.WaitReady("web")
		n.Remove("web")
		if took := n.WaitGone("web"); took < 30*time.Second {
			t.Errorf("gone after %v, with a grace period of 30 s", took)
		}
	})
}

// crash: the agent is killed while a job runs, and the job ends meanwhile. The next agent reports
// how the job ended, and does not run it again.
func crash(t *testing.T) {
	o := podwrighttest.Options{Programs: map[string]podwrighttest.Program{"main": {RunsFor: time.Minute}}}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		job := podwrighttest.Pod("job")
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		n.Add(job)
		n.WaitPhase("job", v1.PodRunning)
		n.Crash()
		n.Advance(2 * time.Minute)
		n.Start()
		n.WaitPhase("job", v1.PodSucceeded)
		if started := n.Runtime().Facts(job.UID, "main").Started; started != 1 {
			t.Errorf("started %d times, want once", started)
		}
	})
}

// registryAway: the runtime cannot pull for a minute.
func registryAway(t *testing.T) {
	podwrighttest.Run(t, podwrighttest.Options{}, func(n *podwrighttest.Node) {
		mend := n.Fail(fake.PullImage, errors.New("the registry is away"))
		n.Add(podwrighttest.Pod("web"))
		n.WaitPhase("web", v1.PodPending)
		n.Advance(time.Minute)
		if reason := n.Pod("web").Status.ContainerStatuses[0].State.Waiting.Reason; reason != "ImagePullBackOff" {
			t.Errorf("reason %s", reason)
		}
		mend()
		n.WaitPhase("web", v1.PodRunning)
		if !slices.ContainsFunc(n.Events("web"), func(e string) bool { return strings.Contains(e, "the registry is away") }) {
			t.Errorf("no event says why: %q", n.Events("web"))
		}
	})
}

// ownSink: a sink of your own is tested in a whole engine.
func ownSink(t *testing.T) {
	running := map[string]bool{}
	mine := status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
		running[u.Name] = u.Status.Phase == v1.PodRunning
		return status.Stored, nil
	})
	o := podwrighttest.Options{Configure: func(c *podwright.Config) {
		c.Observe.Sinks = append(c.Observe.Sinks, mine)
		c.Status.MaxInFlight = 1 // the map is for one call at a time
	}}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		n.Add(podwrighttest.Pod("web"))
		n.WaitPhase("web", v1.PodRunning)
		n.Advance(time.Second)
		if !running["web"] {
			t.Error("the sink was not told")
		}
	})
}

// A test of an agent's node. The other functions of this file are tests too.
func Example() {
	_ = func(t *testing.T) { // TestWebComesUp
		podwrighttest.Run(t, podwrighttest.Options{}, func(n *podwrighttest.Node) {
			n.Add(podwrighttest.Pod("web"))
			n.WaitPhase("web", v1.PodRunning)
		})
	}
	_ = []func(*testing.T){threeLines, crashLoop, stubborn, crash, registryAway, ownSink}
	fmt.Println("go test -run TestWebComesUp")
	// Output: go test -run TestWebComesUp
}
