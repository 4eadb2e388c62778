package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
)

// TestSinksDecideNothing: IN10. The same history of jobs and servers, removed and restored, even
// across an agent's death, starts the same containers with every sink.
func TestSinksDecideNothing(t *testing.T) {
	t.Parallel()
	const n = 8
	fails := func(context.Context, status.Update) (status.StoreResult, error) { return 0, errors.New("no") }
	hangs := func(ctx context.Context, _ status.Update) (status.StoreResult, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	panics := func(context.Context, status.Update) (status.StoreResult, error) { panic("broken") }
	stores := func(context.Context, status.Update) (status.StoreResult, error) { return status.Stored, nil }
	half := func(bad status.SinkFunc) status.SinkFunc {
		return func(ctx context.Context, u status.Update) (status.StoreResult, error) {
			if strings.HasSuffix(string(u.UID), "1") || strings.HasSuffix(string(u.UID), "3") {
				return bad(ctx, u)
			}
			return status.Stored, nil
		}
	}
	var want map[types.UID]int
	synctest.Test(t, func(t *testing.T) {
		want = jobsRemovedAndRestored(t, n, []status.StatusSink{status.SinkFunc(stores)})
		for uid, count := range want {
			if job := strings.Contains(string(uid), "job"); count == 0 || job && count < 2 {
				t.Errorf("%s was started %d times", uid, count)
			}
		}
	})
	for _, tc := range []struct {
		name  string
		sinks []status.StatusSink
	}{
		{"absent", nil},
		{"failing", []status.StatusSink{status.SinkFunc(fails)}},
		{"failing for half", []status.StatusSink{half(fails)}},
		{"slow", []status.StatusSink{status.SinkFunc(hangs)}},
		{"slow for half", []status.StatusSink{half(hangs)}},
		{"panicking", []status.StatusSink{status.SinkFunc(panics)}},
		{"healthy and failing", []status.StatusSink{status.SinkFunc(stores), status.SinkFunc(fails)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := jobsRemovedAndRestored(t, n, tc.sinks)
				if !maps.Equal(got, want) {
					t.Errorf("starts:\n%v, with the healthy sink:\n%v", got, want)
				}
			})
		})
	}
}

// jobsRemovedAndRestored returns how often each of n pods was started in a history of
// removals and returns.
func jobsRemovedAndRestored(t *testing.T, n int, to []status.StatusSink) map[types.UID]int {
	h := newHost(t, byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: 2 * time.Second}}, "fail": {Exit: &fake.Exit{After: time.Second, Code: 3}}}))
	kinds := []struct {
		container string
		policy    v1.RestartPolicy
	}{{"job", v1.RestartPolicyNever}, {"job", v1.RestartPolicyOnFailure}, {"server", v1.RestartPolicyAlways}, {"fail", v1.RestartPolicyNever}}
	// Of the two pods that want one port, the second is refused until the first has gone.
	port := func(name string) *v1.Pod {
		p := withPolicy(newPod(name, "job"), v1.RestartPolicyNever)
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 8080, ContainerPort: 80}}
		return p
	}
	pods := func() (all []*v1.Pod) {
		for i := range n {
			k := kinds[i/2%len(kinds)]
			all = append(all, withPolicy(newPod(fmt.Sprintf("%s-%d", k.container, i), k.container), k.policy))
		}
		return all
	}
	r := h.agent(sinks(to...))
	for range 2 {
		r.set(append(pods(), withPolicy(port("first-1"), v1.RestartPolicyAlways), port("second-1"))...)
		<-time.After(time.Minute)
		r.set(pods()[n/2:]...) // half the pods are removed
		<-time.After(2 * time.Minute)
	}
	r.set(pods()...)
	<-time.After(time.Minute)
	r.set()
	<-time.After(time.Minute)
	h.kill(r)
	r = h.agent(sinks(to...))
	r.set(append(pods(), port("second-1"))...)
	<-time.After(5 * time.Minute)
	out := map[types.UID]int{}
	for _, p := range append(pods(), port("first-1"), port("second-1")) {
		out[p.UID] = starts(h.rt, p.UID)
	}
	return out
}
