package node

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// TestRemovalWaitsForTheRate: IN11. What only the rate forbids waits for it, and no longer
// than its context.
func TestRemovalWaitsForTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := time.Now().Add(3 * time.Second)
		permit := Permit(func(cleanup.Action) rule.Denial {
			if time.Now().Before(free) {
				return rule.RateLimited.Because("used up")
			}
			return rule.Denial{}
		})
		begin := time.Now()
		if d := permit.await(t.Context(), clock.RealClock{}, cleanup.Action{}); !d.IsZero() || time.Since(begin) > 3*time.Second+ratePause {
			t.Errorf("%v after %v", d, time.Since(begin))
		}
		free = time.Now().Add(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin = time.Now()
		if d := permit.await(ctx, clock.RealClock{}, cleanup.Action{}); d.Rule != rule.RateLimited || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", d, time.Since(begin))
		}
	})
}

// TestDrainKeepsWhatIsForbidden: IN11. The pods that may go are gone, the others are named.
func TestDrainKeepsWhatIsForbidden(t *testing.T) {
	d := &drained{known: []podworkers.Explanation{{UID: "a"}, {UID: "b"}, {UID: "c"}}, listed: []*runtime.Pod{runningPod("hidden")}}
	d.permit = func(a cleanup.Action) rule.Denial {
		if a.PodUID == "a" || a.PodUID == "hidden" || a.PodUID == "b" && a.Step == cleanup.StepDirectories {
			return rule.Vetoed.Because("no")
		}
		return rule.Denial{}
	}
	err := d.run(t.Context())
	if err == nil || strings.Count(err.Error(), "DR5: no") != 3 {
		t.Errorf("error %v", err)
	}
	for pod, want := range map[string]string{"a": "", "b": "remove", "c": "remove folder forget", "hidden": "read kill"} {
		if got := d.of(pod); got != want {
			t.Errorf("%s: calls %q, want %q", pod, got, want)
		}
	}
}

// TestImagesOfHiddenPodsStay: IN11. The images of remembered pods that a source may want
// are needed, as are those of desired pods.
func TestImagesOfHiddenPodsStay(t *testing.T) {
	pod := func(uid types.UID, image string) *v1.Pod {
		p := newPod(uid)
		p.Spec.Containers = []v1.Container{{Image: image}}
		return p
	}
	i := &Images{
		Pods:       func() []*v1.Pod { return []*v1.Pod{pod("web", "web:1")} },
		Remembered: func() []*v1.Pod { return []*v1.Pod{pod("hidden", "hidden:1")} },
	}
	if got := strings.Join(i.Desired(), " "); got != "web:1 hidden:1" {
		t.Error(got)
	}
}
