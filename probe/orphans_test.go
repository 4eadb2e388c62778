package probe_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestEndedContainerOrphansNoWorker is 2.1 and 2.7: the first probe of a pod may end as soon as it is
// added, because its container has ended for good. The others are the pod's all the same: there is one
// of each, and it ends with the pod.
func TestEndedContainerOrphansNoWorker(t *testing.T) {
	bubble(t, "2.1, 2.7", func(t *testing.T) {
		r := newRig(t).start()
		p := newPod("a", readiness(every(1)))
		p.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "other", LivenessProbe: tcp(every(1))})
		r.set(p, down("1", 0), named("other", "2", true, time.Now()))
		for range 5 {
			r.m.AddPod(p) // on every sync
			r.pass(time.Second)
		}
		r.take()
		r.pass(10 * time.Second)
		if n := len(r.take()); n != 10 {
			t.Errorf("2.1: %d runs in 10 periods", n)
		}
		if e := r.m.Explain(p.UID); len(e) != 1 {
			t.Errorf("explained: %+v", e)
		}
		r.m.RemovePod(p.UID)
		r.pass(10 * time.Second)
		if n := len(r.take()); n != 0 {
			t.Errorf("2.7: %d runs after the end", n)
		}
	})
}
