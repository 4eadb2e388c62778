package enginetest_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/admission"
)

// restricted makes a pod comply with the level restricted.
func restricted(p *v1.Pod) *v1.Pod {
	p.Spec.SecurityContext = &v1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](1000), SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
	}
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].SecurityContext = &v1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}},
		}
	}
	return p
}

// TestRestrictedLevel: PS1. At the level restricted, a pod runs only if it meets the demands of the
// level. Otherwise it is refused once, even over a restart, with a message that names each field.
func TestRestrictedLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := fake.New(fake.Options{}), t.TempDir()
		policy := admission.SourcePolicy{Security: admission.SecurityRestricted}
		half := restricted(newPod("half", "main", "other"))
		half.Spec.Containers[1].SecurityContext = nil
		for range 2 {
			r := newTenant(t, rt, root, policy)
			r.set()
			r.asks(restricted(newPod("good")), newPod("usual"), privileged(restricted(newPod("worst"))), half)
			r.phase("uid-good", v1.PodRunning, time.Minute)
			for uid, says := range map[string][]string{
				"uid-usual": {`violates PodSecurity "restricted"`, "runAsNonRoot", "allowPrivilegeEscalation", "capabilities", "seccomp"},
				"uid-worst": {"privileged"},
				"uid-half":  {`"other"`, "allowPrivilegeEscalation", "capabilities"},
			} {
				r.rejected(newPod(strings.TrimPrefix(uid, "uid-")).UID, admission.ReasonPodSecurity)
				message := r.pod(newPod(strings.TrimPrefix(uid, "uid-")).UID).Status.Message
				for _, want := range says {
					if !strings.Contains(message, want) {
						t.Errorf("%s: %q does not say %s", uid, message, want)
					}
				}
			}
			<-time.After(time.Minute)
			if n := r.events.count("usual " + admission.ReasonPodSecurity); n > 1 {
				t.Errorf("%d events", n)
			}
			r.stop()
		}
		if n := starts(rt, "uid-good"); n != 1 {
			t.Errorf("the good one was started %d times", n)
		}
		for _, name := range []string{"usual", "worst", "half"} {
			if n := starts(rt, newPod(name).UID); n != 0 {
				t.Errorf("%s was started %d times", name, n)
			}
		}
	})
}

// TestPodSecurityAmongHandlers: PS1, PS5. A level among the node's handlers applies to the pods of
// every source: what it refuses stays refused over a restart, what it admitted continues to run,
// and no change turns a pod into a forbidden one, not even a change made while no agent runs.
func TestPodSecurityAmongHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := fake.New(fake.Options{}), t.TempDir()
		level, err := admission.PodSecurity(admission.SecurityBaseline, admission.SecurityExemptions{})
		if err != nil {
			t.Fatal(err)
		}
		start := func() *rig {
			return newRig(t, rt, root, func(c *podwright.Config) { c.Admission.Handlers = []admission.Handler{level} }).start()
		}
		unharmed := func(r *rig, when string, refused int) {
			t.Helper()
			r.rejected("uid-bad", admission.ReasonPodSecurity)
			r.phase("uid-good", v1.PodRunning, time.Minute)
			<-time.After(2 * time.Minute)
			if n, bad := starts(rt, "uid-good"), starts(rt, "uid-bad"); n != 1 || bad != 0 {
				t.Errorf("%s: the good one was started %d times, the bad one %d", when, n, bad)
			}
			if p := r.pod("uid-good"); p.Spec.Containers[0].SecurityContext != nil {
				t.Errorf("%s: it became %+v", when, p.Spec.Containers[0])
			}
			if n := r.events.count("good ChangeRefused"); n != refused {
				t.Errorf("%s: %d changes refused", when, n)
			}
		}
		r := start()
		r.set(newPod("good"), privileged(newPod("bad")))
		unharmed(r, "at first", 0)
		r.set(privileged(newPod("good")), privileged(newPod("bad")))
		unharmed(r, "changed", 1)
		r.stop()
		r = start()
		r.set(newPod("good"), privileged(newPod("bad")))
		unharmed(r, "restarted", 0)
		r.stop()
		r = start()
		r.set(privileged(newPod("good")), privileged(newPod("bad")))
		unharmed(r, "changed while no agent ran", 1)
	})
}
