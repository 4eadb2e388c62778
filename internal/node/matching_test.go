package node

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop/admission"
)

// TestRefusalsComeFromAFreshNode: SN4. A refusal is final, so a pod that does not match is compared with the node as it is now, and
// again a second later, since the pod may arrive before the change of the node for which it was bound. No other pod waits.
func TestRefusalsComeFromAFreshNode(t *testing.T) {
	const never = time.Hour
	gpu := map[string]string{"gpu": "true"}
	taints := []v1.Taint{{Key: "broken", Effect: v1.TaintEffectNoExecute}}
	selecting, plain := &v1.Pod{Spec: v1.PodSpec{NodeSelector: gpu}}, &v1.Pod{}
	for name, c := range map[string]struct {
		before, after v1.Node
		changes       time.Duration // after the pod arrived
		pod           *v1.Pod
		waits         time.Duration // for the verdict
		refused       string
	}{
		"matches at once":        {pod: plain, changes: never},
		"label just set":         {after: labelled(gpu), pod: selecting},
		"taint just removed":     {before: v1.Node{Spec: v1.NodeSpec{Taints: taints}}, pod: plain},
		"label arrives late":     {after: labelled(gpu), changes: 300 * time.Millisecond, pod: selecting, waits: 300 * time.Millisecond},
		"taint is removed late":  {before: v1.Node{Spec: v1.NodeSpec{Taints: taints}}, changes: 300 * time.Millisecond, pod: plain, waits: 300 * time.Millisecond},
		"label does not come":    {changes: never, pod: selecting, waits: time.Second, refused: "NodeAffinity"},
		"taint stays":            {before: v1.Node{Spec: v1.NodeSpec{Taints: taints}}, changes: never, pod: plain, waits: time.Second, refused: "TaintToleration"},
		"label of another value": {after: labelled(map[string]string{"gpu": "no"}), pod: selecting, waits: time.Second, refused: "NodeAffinity"},
		"another node":           {changes: never, pod: &v1.Pod{Spec: v1.PodSpec{NodeName: "n2"}}, refused: "NodeName"},
		"label just removed":     {before: labelled(gpu), after: v1.Node{Spec: v1.NodeSpec{Taints: taints}}, pod: selecting}, // as it was a moment ago
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var change time.Time
				handlers := matchingOf(func() *v1.Node {
					node := c.before.DeepCopy()
					if !change.IsZero() && !time.Now().Before(change) {
						node = c.after.DeepCopy()
					}
					node.Name = "n1"
					return node
				})
				_, _ = admission.Judge(handlers, admission.Request{Pod: &v1.Pod{}}) // the engine knows the node
				begin := time.Now()
				change = begin.Add(c.changes)
				pod := c.pod.DeepCopy()
				pod.UID = types.UID(name)
				v, err := admission.Judge(handlers, admission.Request{Pod: pod})
				for ; errors.Is(err, nodeBehind{}); v, err = admission.Judge(handlers, admission.Request{Pod: pod}) {
					<-time.After(100 * time.Millisecond)
				}
				if waited := time.Since(begin); err != nil || v.Reason != c.refused || waited != c.waits {
					t.Errorf("%+v, %v after %v", v, err, waited)
				}
			})
		})
	}
}

// TestNodeWithoutAnObjectRefusesAtOnce: SN4. Labels of the configuration do not change, so no pod waits. A function that hangs keeps no pod
// waiting for longer, and a wait is forgotten after a while.
func TestNodeWithoutAnObjectRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		selecting := func(uid string) admission.Request {
			return admission.Request{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Spec: v1.PodSpec{NodeSelector: map[string]string{"gpu": "true"}}}}
		}
		if v, err := admission.Judge(matchingOf(nil), selecting("a")); v.Reason != "NodeAffinity" || err != nil {
			t.Errorf("%+v, %v", v, err)
		}
		hung := make(chan struct{})
		handlers := matchingOf(func() *v1.Node { <-hung; return nil })
		begin := time.Now()
		for i := range 100 {
			if _, err := admission.Judge(handlers, selecting(fmt.Sprint(i))); !errors.Is(err, nodeBehind{}) {
				t.Errorf("pod %d: %v", i, err)
			}
		}
		if waited := time.Since(begin); waited > 100*time.Millisecond {
			t.Errorf("a function that hangs cost %v", waited)
		}
		<-time.After(selfPeriod)
		if v, err := admission.Judge(handlers, selecting("0")); v.Reason != "NodeAffinity" || err != nil {
			t.Errorf("without an answer: %+v, %v", v, err)
		}
		<-time.After(mismatchKept)
		_, _ = admission.Judge(handlers, selecting("last"))
		if n := len(handlers[0].(*compared).since); n != 1 {
			t.Errorf("%d pods are remembered", n)
		}
		close(hung)
		synctest.Wait()
	})
}

// TestPodThatWaitsForTheNodeHasNoClaim: SN4, IN6. It will hardly be admitted, so other pods do not leave it room.
func TestPodThatWaitsForTheNodeHasNoClaim(t *testing.T) {
	if !yields(fmt.Errorf("a handler: %w", nodeBehind{})) {
		t.Error("others leave it room")
	}
}

func labelled(labels map[string]string) v1.Node {
	return v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
}

// matchingOf are the handlers of a node that an API server has as object says.
func matchingOf(object func() *v1.Node) []admission.Handler {
	self, _ := newSelf(func(o *SelfOptions) { o.Object = object })
	return Matching{Self: self, Machine: &pods.Machine{}, Health: &Health{}}.Handlers()
}
