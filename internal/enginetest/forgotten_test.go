package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop/mirror"
)

// TestSinksHearThatPodsAreForgotten: FG1: 100 pods are removed that were running, never began, were refused,
// were evicted or had ended. The last thing that a sink hears of each is that it is forgotten, and how it ended.
func TestSinksHearThatPodsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}, "main": {}})
		r := newRig(t, rt, t.TempDir()).start()
		var pods []*v1.Pod
		want := map[types.UID]v1.PodPhase{}
		add := func(p *v1.Pod, end v1.PodPhase) {
			pods = append(pods, p)
			want[p.UID] = end
		}
		for i := range 96 {
			add(newPod(fmt.Sprintf("run%d", i)), v1.PodSucceeded)
		}
		job := newPod("job", "job")
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		add(job, v1.PodSucceeded)
		hung := newPod("hung")
		rt.Inject(fake.Fault{Match: fake.Match{Method: fake.RunPodSandbox, PodUID: hung.UID}, Effect: fake.Effect{Err: errors.New("no address is left")}})
		add(hung, v1.PodFailed)
		evicted := newPod("evicted")
		add(evicted, v1.PodFailed)
		refused := newPod("refused")
		refused.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "kernel.panic", Value: "1"}}}
		add(refused, v1.PodFailed)
		r.set(pods...)
		for _, p := range pods[:96] {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		r.phase(job.UID, v1.PodSucceeded, time.Minute)
		r.phase(refused.UID, v1.PodFailed, time.Minute)
		r.phase(evicted.UID, v1.PodRunning, time.Minute)
		if err := r.engine.EvictPod(t.Context(), evicted.UID, podwright.EvictOptions{}); err != nil {
			t.Error(err)
		}
		for _, p := range pods {
			if got := r.sink.forgotten(p.UID); got != "" {
				t.Errorf("%s is forgotten while its source wants it: %s", p.Name, got)
			}
		}
		r.set()
		r.within(2*time.Minute, "all pods to be forgotten", func() error {
			for _, p := range pods {
				if got := r.sink.forgotten(p.UID); got != want[p.UID] {
					return fmt.Errorf("%s is forgotten as %q, want %s", p.Name, got, want[p.UID])
				}
			}
			return nil
		})
		r.empty(time.Minute)
		if pods := r.engine.Pods(); len(pods) != 0 {
			t.Errorf("%d pods are shown", len(pods))
		}
		r.set(pods[0]) // the same UID once more
		r.phase(pods[0].UID, v1.PodRunning, time.Minute)
		if got := r.sink.forgotten(pods[0].UID); got != "" {
			t.Errorf("the pod that came back is forgotten: %s", got)
		}
	})
}

// TestNextAgentTellsWhatIsForgotten: FG1, CK7: a database is down while pods are removed, and the agent is killed.
// Once the database is back, the next agent tells it, even of a pod of an API that this agent never got.
func TestNextAgentTellsWhatIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, api := newHost(t, fake.New(fake.Options{})), &mirror.FakeClient{}
		var down atomic.Bool
		sink := &history{}
		database := status.SinkFunc(func(ctx context.Context, u status.Update) (status.StoreResult, error) {
			if down.Load() {
				return 0, errors.New("the database is down")
			}
			return sink.Store(ctx, u)
		})
		agent := func() *rig {
			return h.agent(func(c *podwright.Config) {
				c.Sources = append(c.Sources, apiSource{api: api})
				c.Observe.Sinks = []status.StatusSink{database}
			})
		}
		local, remote := newPod("local"), newPod("remote")
		r := agent()
		api.Put(remote)
		r.set(local)
		r.phase(local.UID, v1.PodRunning, time.Minute)
		r.phase(remote.UID, v1.PodRunning, time.Minute)
		down.Store(true)
		deleted := remote.DeepCopy()
		deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, new(int64)
		api.Put(deleted)
		r.set()
		r.empty(time.Minute)
		if err := api.Delete(t.Context(), remote.Namespace, remote.Name, remote.UID); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		h.kill(r)
		r = agent()
		r.set()
		<-time.After(time.Minute)
		down.Store(false)
		r.within(2*time.Minute, "both to be forgotten", func() error {
			for _, p := range []*v1.Pod{local, remote} {
				if got := sink.forgotten(p.UID); got != v1.PodSucceeded {
					return fmt.Errorf("%s: %q", p.Name, got)
				}
			}
			return nil
		})
		r.within(time.Minute, "the record to go", func() error {
			if h.records()[local.UID] != nil {
				return errors.New("it is there")
			}
			return nil
		})
	})
}
