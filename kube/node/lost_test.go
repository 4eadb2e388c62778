package node

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// lose makes Ready of the Node Unknown, as the cluster does to a node whose lease has run out, and returns since when.
func (r *rig) lose() metav1.Time {
	r.t.Helper()
	node, since := r.node().DeepCopy(), metav1.NewTime(time.Now().Truncate(time.Second))
	node.Status.Conditions[0].Status, node.Status.Conditions[0].LastTransitionTime = v1.ConditionUnknown, since
	if err := r.api.Tracker().Update(v1.SchemeGroupVersion.WithResource("nodes"), node, ""); err != nil {
		r.t.Fatal(err)
	}
	return since
}

// TestNodeThatWasTakenForLost (KN4, KN5): it is Ready again within 20 s, and no earlier than it was lost; the same if its next
// status is due by then.
func TestNodeThatWasTakenForLost(t *testing.T) {
	for name, running := range map[string]time.Duration{"soon": time.Minute, "when the next status is due": 5*time.Minute - 5*time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.start(nil)
				after(running)
				since := r.lose()
				after(20 * time.Second)
				if c := r.node().Status.Conditions[0]; c.Status != v1.ConditionTrue || c.LastTransitionTime.Before(&since) {
					t.Errorf("%s since %s, lost at %s", c.Status, c.LastTransitionTime, since)
				}
				r.api.ClearActions()
				after(time.Minute)
				if n := r.count("patch nodes/status"); n != 0 {
					t.Errorf("%d statuses of a Node that shows the last one", n)
				}
			})
		})
	}
}

// TestConditionThatAnotherKeepsChanging (KN4): it causes one status in 10 s, no more.
func TestConditionThatAnotherKeepsChanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api.PrependReactor("patch", "nodes", func(a clienttesting.Action) (bool, apiruntime.Object, error) {
			if a.GetSubresource() == "status" {
				time.AfterFunc(time.Second, func() { r.lose() })
			}
			return false, nil, nil
		})
		r.start(nil)
		after(time.Minute)
		r.api.ClearActions()
		after(10 * time.Minute)
		if n := r.count("patch nodes/status"); n < 50 || n > 60 {
			t.Errorf("%d statuses in 10 min", n)
		}
	})
}
