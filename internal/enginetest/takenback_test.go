package enginetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/admission"
)

// TestPodWhoseEndIsTakenBackIsJudged: PS9. A tenant's pod that has ended when it arrives is not
// judged, because it runs nothing. When the tenant takes back the end, the pod is judged as a new
// one: in the same process, before the gate opens, and after a restart.
func TestPodWhoseEndIsTakenBackIsJudged(t *testing.T) {
	ends := map[string]func(*v1.Pod) *v1.Pod{
		"deleted":   func(p *v1.Pod) *v1.Pod { p.DeletionTimestamp = &metav1.Time{Time: time.Now()}; return p },
		"succeeded": func(p *v1.Pod) *v1.Pod { p.Status.Phase = v1.PodSucceeded; return p },
	}
	back := map[string]func(tenancy) tenancy{
		"at once": func(r tenancy) tenancy { return r },
		"later":   func(r tenancy) tenancy { <-time.After(5 * time.Minute); return r },
		"restarted": func(r tenancy) tenancy {
			<-time.After(time.Minute)
			r.stop()
			r = newTenancy(r.t, r.runtime, r.root)
			r.set()
			return r
		},
	}
	for how, end := range ends {
		for when, then := range back {
			t.Run(how+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rt := fake.New(fake.Options{})
					r := newTenancy(t, rt, t.TempDir())
					r.set()
					r.asks(end(privileged(newPod("bad"))), end(newPod("good")))
					r = then(r)
					r.asks(privileged(newPod("bad")), newPod("good"))
					<-time.After(5 * time.Minute)
					if how == "deleted" {
						r.phase("uid-good", v1.PodRunning, time.Minute)
					}
					r.stop()
					r = newTenancy(t, rt, r.root)
					r.set()
					r.asks(privileged(newPod("bad")), newPod("good"))
					<-time.After(5 * time.Minute)
					if how == "deleted" { // a phase that is final stays
						r.rejected("uid-bad", admission.ReasonPodSecurity)
						r.phase("uid-good", v1.PodRunning, time.Minute)
					}
					if n := starts(rt, "uid-bad"); n != 0 {
						t.Errorf("the forbidden pod was started %d times", n)
					}
					if n := r.events.count("bad " + admission.ReasonPodSecurity); n > 1 {
						t.Errorf("%d events", n)
					}
				})
			})
		}
	}
}
