package enginetest_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/tracing/tracingtest"
	"github.com/podwright/podwright/runtime/fake"
)

// traced hands a provider to an agent.
func traced(p *tracingtest.Provider) func(*podwright.Config) {
	return func(c *podwright.Config) { c.Observe.TracerProvider = p }
}

// roots returns the spans of a name that have no parent, by UID.
func roots(p *tracingtest.Provider, name string) map[types.UID]tracingtest.Span {
	all := map[types.UID]tracingtest.Span{}
	for _, s := range p.Spans() {
		if s.Name == name && s.Parent == 0 {
			all[types.UID(s.Attributes["k8s.pod.uid"])] = s
		}
	}
	return all
}

// below counts the spans below one span, by name.
func below(p *tracingtest.Provider, root uint64) map[string]int {
	names, family := map[string]int{}, map[uint64]bool{root: true}
	for _, s := range p.Spans() { // a parent comes before its children
		if family[s.Parent] {
			family[s.ID] = true
			names[s.Name]++
		}
	}
	return names
}

// TestPodIsTraced: podworkers.md TR1, TR2. The readiness probe of a pod takes a while. The span of its start ends when the pod
// is ready, and has the steps, the pull and the runtime calls below it; the span of its stop has the stop of the container.
func TestPodIsTraced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := &tracingtest.Provider{}
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), traced(spans)).start()
		pod := newPod("web")
		pod.Spec.Containers[0].ReadinessProbe = check("ready")
		pod.Spec.Containers[0].ReadinessProbe.InitialDelaySeconds = 20
		began := time.Now()
		r.set(pod)
		r.within(2*time.Minute, "the start to end", func() error {
			if roots(spans, "pod start")[pod.UID].End.IsZero() {
				return errors.New("it goes on")
			}
			return nil
		})
		start := roots(spans, "pod start")[pod.UID]
		if took := start.End.Sub(began); took < 20*time.Second || start.Attributes["podwright.outcome"] != "Ready" || !slices.Equal(start.Events, []string{"Running"}) {
			t.Errorf("the start took %v and was %+v; want Ready after the probe's 20 s", took, start)
		}
		for _, name := range []string{
			"syncPod", "runtime.v1.ImageService/PullImage", "runtime.v1.RuntimeService/RunPodSandbox",
			"runtime.v1.RuntimeService/CreateContainer", "runtime.v1.RuntimeService/StartContainer",
		} {
			if below(spans, start.ID)[name] == 0 {
				t.Errorf("no %s in the start: %v", name, below(spans, start.ID))
			}
		}
		r.set()
		r.empty(time.Minute)
		r.within(time.Minute, "the stop to end", func() error {
			if roots(spans, "pod stop")[pod.UID].End.IsZero() {
				return errors.New("it goes on")
			}
			return nil
		})
		stop := below(spans, roots(spans, "pod stop")[pod.UID].ID)
		if stop["syncTerminatingPod"] == 0 || stop["runtime.v1.RuntimeService/StopContainer"] != 1 || stop["syncTerminatedPod"] == 0 {
			t.Errorf("below the stop: %v", stop)
		}
	})
}

// TestTracesAfterAKill: TR1. An agent is killed during a start. The next agent traces that start again, with its own
// beginning, and no start of the pod that was ready.
func TestTracesAfterAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{}))
		r := n.agent(traced(&tracingtest.Provider{}))
		up, slow := newPod("up"), newPod("slow")
		slow.Spec.Containers[0].ReadinessProbe = check("ready")
		slow.Spec.Containers[0].ReadinessProbe.InitialDelaySeconds = 60
		r.set(up, slow)
		r.phase(up.UID, v1.PodRunning, time.Minute)
		r.phase(slow.UID, v1.PodRunning, time.Minute)
		<-time.After(10 * time.Second)
		n.kill(r)
		spans := &tracingtest.Provider{}
		r = n.agent(traced(spans))
		r.set(up, slow)
		r.within(3*time.Minute, "the start to end", func() error {
			if roots(spans, "pod start")[slow.UID].End.IsZero() {
				return errors.New("it goes on")
			}
			return nil
		})
		if starts := slices.Collect(maps.Keys(roots(spans, "pod start"))); !slices.Equal(starts, []types.UID{slow.UID}) {
			t.Errorf("starts of %q after the kill, want that of the pod that was not ready", starts)
		}
	})
}

// TestCrowdIsTraced: TR3. Hundreds of pods come, crash and go. They leave no span open, and each span ends once.
func TestCrowdIsTraced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := &tracingtest.Provider{}
		r := newRig(t, byContainer(map[string]fake.Script{"crash": {Exit: &fake.Exit{After: time.Second, Code: 1}}}), t.TempDir(), traced(spans)).start()
		var pods []*v1.Pod
		for i := range 200 {
			kind := "server"
			if i%4 == 0 {
				kind = "crash"
			}
			pods = append(pods, newPod(fmt.Sprintf("%s-%d", kind, i), kind))
		}
		r.set(pods...)
		r.phase(pods[199].UID, v1.PodRunning, 5*time.Minute)
		<-time.After(2 * time.Minute)
		r.set()
		r.empty(10 * time.Minute)
		r.within(time.Minute, "every stop to end", func() error {
			ended := 0
			for _, s := range roots(spans, "pod stop") {
				if !s.End.IsZero() {
					ended++
				}
			}
			if ended != len(pods) {
				return fmt.Errorf("%d of %d", ended, len(pods))
			}
			return nil
		})
		for _, s := range spans.Spans() {
			if s.Ends != 1 && !strings.HasPrefix(s.Name, "runtime.v1.") {
				t.Errorf("%s of %s ended %d times", s.Name, s.Attributes["k8s.pod.name"], s.Ends)
			}
		}
		if n := len(roots(spans, "pod start")); n != len(pods) {
			t.Errorf("%d starts of %d pods", n, len(pods))
		}
	})
}
