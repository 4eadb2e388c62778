package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
)

// tellings is a sink that remembers all updates of each pod, up to the one that forgets it.
type tellings struct {
	mu      sync.Mutex
	updates map[types.UID][]status.Update
}

func (s *tellings) Store(_ context.Context, u status.Update) (status.StoreResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.Forgotten {
		return status.Stored, nil
	}
	if s.updates == nil {
		s.updates = map[types.UID][]status.Update{}
	}
	s.updates[u.UID] = append(s.updates[u.UID], u)
	return status.Stored, nil
}

// summary returns the updates of a pod, one word for each that differs from the one before.
func (s *tellings) summary(uid types.UID) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, u := range s.updates[uid] {
		text := string(u.Status.Phase)
		for _, c := range u.Status.ContainerStatuses {
			switch end := c.State.Terminated; {
			case c.State.Running != nil:
				text += " running"
			case end != nil:
				text += fmt.Sprintf(" %s(%d)", end.Reason, end.ExitCode)
			default:
				text += " waiting"
			}
		}
		if u.Finished {
			text += " finished"
		}
		if len(out) == 0 || out[len(out)-1] != text {
			out = append(out, text)
		}
	}
	return out
}

// TestRunningPodIsNeverToldAsEndedUnread: RT2, pleg.md C2. The manifests of 20 pods are removed
// while no agent runs. The next agent is late to read their containers. Until it has read them, it
// concludes nothing from what it does not know.
func TestRunningPodIsNeverToldAsEndedUnread(t *testing.T) {
	t.Parallel()
	on := func(times int, e fake.Effect) fake.Fault {
		return fake.Fault{Match: fake.Match{Method: fake.ContainerStatus}, Times: times, Effect: e}
	}
	second := fake.Effect{Delay: time.Second}
	for name, faults := range map[string][]fake.Fault{
		"after 1 s":         {on(0, second)},
		"after 6 s":         {on(0, fake.Effect{Delay: 6 * time.Second})},
		"too late at first": {on(20, fake.Effect{Delay: 12 * time.Second}), on(0, second)},
		"fails at first":    {on(60, fake.Effect{Err: errors.New("not yet")}), on(0, second)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newHost(t, byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 2 * time.Second, Code: 4}}}))
				var pods []*v1.Pod
				for i := range 20 {
					pods = append(pods, newPod(fmt.Sprintf("web-%d", i)))
				}
				first := n.agent()
				first.set(pods...)
				for _, p := range pods {
					first.phase(p.UID, v1.PodRunning, time.Minute)
				}
				<-time.After(5 * time.Second)
				n.kill(first)

				n.rt.Inject(faults...)
				sink := &tellings{}
				r := n.agent(sinks(sink))
				r.set()
				r.empty(10 * time.Minute)
				<-time.After(time.Minute)
				for _, p := range pods {
					told := strings.TrimPrefix(strings.Join(sink.summary(p.UID), ", "), "Running running, ")
					if told = strings.TrimPrefix(told, "Running Error(4), "); told != "Running Error(4) finished" {
						t.Errorf("%s: told %v", p.UID, sink.summary(p.UID))
					}
				}
			})
		})
	}
}

// TestFinishedPodIsNotToldAgainWhileItsSourceDeletesIt: RT2, CK4. A pod is finished, and its source
// still names it as being deleted, as an API does until it has taken the end. Agents that start at
// this time send nothing different about it, even after the source has dropped it.
func TestFinishedPodIsNotToldAgainWhileItsSourceDeletesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 2 * time.Second, Code: 4}}}))
		deleted := newPod("web")
		deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](10)
		sink := &tellings{}
		first := n.agent(sinks(sink))
		first.set(newPod("web"))
		first.phase("uid-web", v1.PodRunning, time.Minute)
		first.set(deleted)
		first.empty(time.Minute)
		<-time.After(10 * time.Second)
		n.kill(first)
		for range 3 {
			r := n.agent(sinks(sink))
			r.set(deleted.DeepCopy())
			<-time.After(10 * time.Second)
			n.kill(r)
		}
		r := n.agent(sinks(sink))
		r.set()
		<-time.After(time.Minute)
		told := sink.summary("uid-web")
		if i := slices.Index(told, "Running Error(4) finished"); i < 0 || i != len(told)-1 {
			t.Errorf("told %v", told)
		}
		if got := starts(n.rt, "uid-web"); got != 1 {
			t.Errorf("%d starts, want 1", got)
		}
	})
}
