package podsync_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/podworkers/syncertest"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
)

// The syncer keeps its side of the contract, on a fake runtime in virtual time. It leaves
// a pod's folder to housekeeping, so the subject has no Held.
func TestSyncerConforms(t *testing.T) {
	for _, c := range syncertest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, conforming) })
		})
	}
}

func conforming(t *testing.T) syncertest.Subject {
	rt := fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
		if l.PodName == "job" {
			return fake.Script{Exit: &fake.Exit{After: time.Second}}
		}
		return fake.Script{OnTERM: fake.Exit{After: 500 * time.Millisecond}}
	}})
	a := newAgent(rt, clock.RealClock{}, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	var parts sync.WaitGroup
	for _, part := range []func(context.Context) error{a.pleg.Run, a.status.Run, a.syncer.Run} {
		parts.Go(func() {
			if err := part(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(parts.Wait)
	t.Cleanup(cancel)
	pod := func(name string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "a", Image: "app:1"}, {Name: "b", Image: "app:1"}}},
		}
	}
	return syncertest.Subject{
		Syncer: a.syncer, Pod: pod, Views: a.pleg,
		Ending: func(name string) *v1.Pod {
			p := pod(name)
			p.Spec.RestartPolicy = v1.RestartPolicyNever
			return p
		},
		Running: func(uid types.UID) int { return rt.Running(uid, "a") + rt.Running(uid, "b") },
		Status: func(uid types.UID) *v1.PodStatus {
			s, ok := a.status.Get(uid)
			if !ok {
				return nil
			}
			return &s
		},
		Listed: func(ctx context.Context, uid types.UID) (*runtime.Pod, error) {
			pods, err := cri.NewView(rt, cri.ViewOptions{}).ListPods(ctx)
			for _, p := range pods {
				if p.UID == uid {
					return p, nil
				}
			}
			return nil, fmt.Errorf("not listed: %w", err)
		},
	}
}
