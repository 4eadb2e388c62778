package kube

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// having is an engine with these pods.
type having struct {
	Engine
	pods []v1.Pod
}

func (h having) Pods() []v1.Pod { return h.pods }

// TestLeftOut (KT4): only a deleted pod of which nothing was ever reported, and that the engine does not have, although a pod of
// its name has begun, waits for nothing.
func TestLeftOut(t *testing.T) {
	named := func(uid types.UID, phase v1.PodPhase) v1.Pod {
		return v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid}, Status: v1.PodStatus{Phase: phase}}
	}
	for name, c := range map[string]struct {
		set  func(p *v1.Pod)
		has  []v1.Pod
		want int
	}{
		"left out":               {nil, []v1.Pod{named("static", v1.PodRunning)}, 1},
		"its namesake has ended": {nil, []v1.Pod{named("static", v1.PodSucceeded)}, 1},
		"its namesake waits":     {nil, []v1.Pod{named("static", v1.PodPending)}, 0},
		"no namesake":            {nil, nil, 0},
		"the engine has it":      {nil, []v1.Pod{named("web", v1.PodPending), named("static", v1.PodRunning)}, 0},
		"not deleted":            {func(p *v1.Pod) { p.DeletionTimestamp = nil }, []v1.Pod{named("static", v1.PodRunning)}, 0},
		"an agent told of it":    {func(p *v1.Pod) { p.Status.StartTime = ptr.To(metav1.Now()) }, []v1.Pod{named("static", v1.PodRunning)}, 0},
		"it has ended":           {func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }, []v1.Pod{named("static", v1.PodRunning)}, 0},
		"finalizers":             {func(p *v1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](0) }, []v1.Pod{named("static", v1.PodRunning)}, 0},
		"a mirror pod": {
			func(p *v1.Pod) { p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"} },
			[]v1.Pod{named("static", v1.PodRunning)},
			0,
		},
	} {
		p := named("web", v1.PodPending)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(time.Now())), ptr.To[int64](30)
		if c.set != nil {
			c.set(&p)
		}
		a := &Agent{}
		var engine Engine = having{pods: c.has}
		a.engine.Store(&engine)
		a.delivered.Store(&[]*v1.Pod{&p})
		if got := a.leftOut(); len(got) != c.want {
			t.Errorf("%s: %d pods, want %d", name, len(got), c.want)
		}
	}
}
