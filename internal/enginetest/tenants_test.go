package enginetest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/source"
)

// tenancy is a rig whose own source is the operator's; a tenant has another one.
type tenancy struct {
	*rig
	tenant *source.Channel
}

// newTenancy starts an engine that allows the tenant five modest pods.
func newTenancy(t *testing.T, rt *fake.Runtime, root string, configure ...func(*podwright.Config)) tenancy {
	t.Helper()
	tenant := source.NewChannel(source.ChannelOptions{Name: "tenant", NodeName: "n1"})
	return tenancy{newRig(t, rt, root, append(configure, func(c *podwright.Config) {
		c.Sources = append(c.Sources, tenant)
		c.Admission.Sources = map[string]admission.SourcePolicy{"tenant": {
			Namespaces: []string{"default"}, HighestPriority: ptr.To[int32](0), MaxPods: 5, Security: admission.SecurityBaseline,
		}}
	})...).start(), tenant}
}

// asks hands the tenant's pods to the engine.
func (r tenancy) asks(pods ...*v1.Pod) {
	r.t.Helper()
	if err := r.tenant.Set(r.t.Context(), pods); err != nil {
		r.t.Fatal(err)
	}
}

func privileged(p *v1.Pod) *v1.Pod {
	p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: ptr.To(true)}
	return p
}

// TestTenantGetsWhatItsPolicySays: PS1, PS4. Of a tenant's hundred pods, those that its policy
// allows run, and the others are Failed with the reason; the operator's ten run beside them. After a
// restart that is still so (AD5): a refused pod is judged as it is, and not with a lower priority (PS7).
func TestTenantGetsWhatItsPolicySays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := fake.New(fake.Options{}), t.TempDir()
		r := newTenancy(t, rt, root)
		var own, asked []*v1.Pod
		want := map[types.UID]string{}
		for i := range 10 {
			p := privileged(newPod(fmt.Sprintf("own-%d", i)))
			p.Spec.PriorityClassName = "system-node-critical"
			own, want[p.UID] = append(own, p), ""
		}
		for i := range 100 {
			p := newPod(fmt.Sprintf("asked-%03d", i))
			switch i % 4 {
			case 0:
				want[p.UID] = admission.ReasonPodSecurity
				privileged(p)
			case 1:
				want[p.UID] = admission.ReasonSourcePolicy
				p.Spec.PriorityClassName = "system-node-critical"
			case 2:
				want[p.UID] = admission.ReasonSourcePolicy
				p.Namespace = "kube-system"
			case 3:
				if want[p.UID] = "OutOfpods"; i < 4*5 {
					want[p.UID] = ""
				}
			}
			asked = append(asked, p)
		}
		check := func() {
			t.Helper()
			r.asks(asked...)
			r.set(own...)
			for uid, reason := range want {
				if reason == "" {
					r.phase(uid, v1.PodRunning, 10*time.Second)
				} else {
					r.rejected(uid, reason)
				}
			}
		}
		check()
		r.stop()
		r = newTenancy(t, rt, root)
		check()
		for uid, reason := range want {
			if n := starts(rt, uid); n != 1 && reason == "" || n != 0 && reason != "" {
				t.Errorf("%s (%s) was started %d times", uid, reason, n)
			}
		}
	})
}

// TestUIDIsNotStolen: PS6. A tenant does not get the UID of a pod that runs, not even before the UID's owner has
// answered after a restart, or while the pod is still stopping. It gets the UID when nothing is left of the pod.
func TestUIDIsNotStolen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := fake.New(fake.Options{Script: func(fake.Launch) fake.Script { return fake.Script{IgnoreTERM: true} }}), t.TempDir()
		r := newTenancy(t, rt, root)
		own, thief := privileged(newPod("own")), privileged(newPod("thief"))
		thief.UID = own.UID
		r.asks()
		r.set(own)
		r.phase(own.UID, v1.PodRunning, 10*time.Second)
		r.asks(thief)
		said := r.events.said("thief FailedValidation")
		if len(said) != 1 || !strings.Contains(said[0], `pod default/thief (UID uid-own) of source "tenant" is left out: its UID belongs to pod default/own of source "channel"`) {
			t.Errorf("events about the thief: %q", said)
		}
		r.stop()

		r = newTenancy(t, rt, root)
		r.asks(thief) // before the owner says anything
		<-time.After(5 * time.Second)
		r.set(own)
		r.phase(own.UID, v1.PodRunning, 10*time.Second)
		r.set()
		<-time.After(5 * time.Second) // of its grace of 10 s
		r.asks(thief)
		if p := r.pod(own.UID); p != nil && p.Name != "own" {
			t.Errorf("%s has the UID while the pod stops", p.Name)
		}
		r.within(time.Minute, "the end of the owner", func() error {
			if left := rt.Running(own.UID, "main"); left > 0 {
				return fmt.Errorf("it runs")
			}
			return nil
		})
		<-time.After(time.Minute)
		r.rejected(own.UID, admission.ReasonPodSecurity) // judged as the tenant's own pod, by its policy
		if n := starts(rt, own.UID); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
}

// TestStricterPolicyKeepsNames: PS4, AD5. A pod that was admitted before its source's policy forbade it continues under its
// name, although another source has a pod of that name, whichever is heard first. Its next life is judged by the policy: the
// other pod then gets the name.
func TestStricterPolicyKeepsNames(t *testing.T) {
	for _, tenantFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("tenant first: %v", tenantFirst), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stricter(t, tenantFirst) })
		})
	}
}

func stricter(t *testing.T, tenantFirst bool) {
	rt, root := fake.New(fake.Options{}), t.TempDir()
	web, other := privileged(newPod("web")), newPod("web")
	other.UID = "uid-other"
	second := func(c *podwright.Config) { c.Sources[0] = weaker{c.Sources[0]} }
	r := newTenant(t, rt, root, admission.SourcePolicy{}, second)
	r.set()
	r.asks(web)
	r.phase(web.UID, v1.PodRunning, time.Minute)
	r.set(other)
	r.stop()

	r = newTenant(t, rt, root, admission.SourcePolicy{Security: admission.SecurityBaseline}, second)
	if !tenantFirst {
		r.set(other)
	}
	r.asks(web)
	r.set(other)
	<-time.After(3 * time.Minute)
	r.asks(web)
	r.phase(web.UID, v1.PodRunning, time.Minute)
	if n := len(rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: web.UID})); n != 0 {
		t.Errorf("the admitted pod was stopped %d times", n)
	}
	if n := starts(rt, other.UID); n != 0 {
		t.Errorf("the other pod was started %d times", n)
	}
	r.asks()
	<-time.After(time.Minute)
	r.asks(web)
	r.phase(other.UID, v1.PodRunning, time.Minute)
	if n := starts(rt, web.UID); n != 1 {
		t.Errorf("the forbidden pod was started %d times", n)
	}
}

// TestAdmittedPodDoesNotBecomeAnother: PS5. A tenant's admitted pod does not change into one that
// would not have been admitted, whether an agent runs meanwhile or not.
func TestAdmittedPodDoesNotBecomeAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := fake.New(fake.Options{}), t.TempDir()
		r := newTenancy(t, rt, root)
		r.set()
		r.asks(newPod("a"))
		r.phase("uid-a", v1.PodRunning, 10*time.Second)
		stays := func(when string) {
			t.Helper()
			<-time.After(2 * time.Minute)
			if n, p := starts(rt, "uid-a"), r.pod("uid-a"); n != 1 || p == nil || p.Status.Phase != v1.PodRunning || p.Spec.Containers[0].SecurityContext != nil {
				t.Errorf("%s: started %d times, %+v", when, n, p)
			}
			if n := r.events.count("a ChangeRefused"); n != 1 {
				t.Errorf("%s: %d events", when, n)
			}
		}
		r.asks(privileged(newPod("a")))
		stays("changed")
		r.stop()
		r = newTenancy(t, rt, root)
		r.set()
		r.asks(privileged(newPod("a")))
		stays("changed while no agent ran")
		changed := newPod("a")
		changed.Spec.Containers[0].Image = "app:2"
		r.asks(changed)
		r.within(time.Minute, "an allowed change", func() error {
			if n := starts(rt, "uid-a"); n != 2 {
				return fmt.Errorf("started %d times", n)
			}
			return nil
		})
	})
}

// TestNoFileTakesTheUIDOfAnother: PS6. A second manifest in a folder claims the UID of a running pod,
// with a name that sorts before or after its own. The pod continues to run, even over a restart.
func TestNoFileTakesTheUIDOfAnother(t *testing.T) {
	for _, thief := range []string{"a.yaml", "z.yaml"} {
		t.Run(thief, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, root, folder := fake.New(fake.Options{}), t.TempDir(), t.TempDir()
				claiming := func(name, image string) string {
					return strings.Replace(manifestOf(name, image), "metadata:\n", "metadata:\n  uid: owned\n", 1)
				}
				f := newFed(t, rt, root, folder)
				f.change("m.yaml", text(claiming("web", "app:1")))
				f.phase("owned", v1.PodRunning, time.Minute)
				f.change(thief, text(claiming("evil", "evil:1")))
				unharmed := func() {
					t.Helper()
					<-time.After(2 * time.Minute)
					if p := f.pod("owned"); p == nil || p.Name != "web-n1" || p.Status.Phase != v1.PodRunning || rt.Facts("owned", "main").Started != 1 {
						t.Errorf("the owner: %+v, %+v", p, rt.Facts("owned", "main"))
					}
					if texts := f.events.said("evil-n1 FailedValidation"); len(texts) != 1 || !strings.Contains(texts[0], "its UID belongs to") {
						t.Errorf("events %q", texts)
					}
				}
				unharmed()
				f.stop()
				f = newFed(t, rt, root, folder)
				unharmed()
				f.change("m.yaml", os.Remove)
				f.within(time.Minute, "the next owner", func() error {
					if p := f.pod("owned"); p == nil || p.Name != "evil-n1" || p.Status.Phase != v1.PodRunning {
						return fmt.Errorf("%+v", p)
					}
					return nil
				})
			})
		})
	}
}

// TestOwnUIDsCannotBeChosen: PS8. A tenant that claims the UID of an operator's pod gets a
// different one. It is the same after a restart, when the tenant's pod continues, and differs on
// another node. Only the agent can read the key, and a damaged key is reported.
func TestOwnUIDsCannotBeChosen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := fake.New(fake.Options{}), t.TempDir()
		own := newPod("own")
		theirs := newPod("theirs")
		theirs.UID = own.UID
		given := func(rt *fake.Runtime, root string) types.UID {
			t.Helper()
			r := newTenant(t, rt, root, admission.SourcePolicy{OwnUIDs: true})
			defer r.stop()
			r.asks(theirs)
			r.set(own)
			r.phase(own.UID, v1.PodRunning, time.Minute)
			if p := r.pod(own.UID); p.Name != "own" {
				t.Errorf("the UID belongs to %s", p.Name)
			}
			uid := r.uidOf("theirs")
			r.phase(uid, v1.PodRunning, time.Minute)
			if f := rt.Facts(uid, "main"); f.Started != 1 || len(uid) != 32 {
				t.Errorf("UID %q, started %d times", uid, f.Started)
			}
			return uid
		}
		first := given(rt, root)
		if again := given(rt, root); again != first {
			t.Errorf("UID %s, after the restart %s", first, again)
		}
		if other := given(fake.New(fake.Options{}), t.TempDir()); other == first {
			t.Errorf("two nodes make the same UID %s", other)
		}
		key := filepath.Join(root, "state", "uid-key")
		if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 || info.Size() != 32 {
			t.Errorf("the key: %v, %v", info, err)
		}
		if err := os.WriteFile(key, []byte("short"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := podwright.New(podwright.Config{
			Runtime: rt, Images: rt, Sources: []syncloop.Source{source.NewChannel(source.ChannelOptions{NodeName: "n1"})}, RootDir: root, Node: podwright.Node{Name: "n1"},
			Admission: podwright.Admission{Sources: map[string]admission.SourcePolicy{"": {OwnUIDs: true}}},
		})
		if err == nil || !strings.Contains(err.Error(), "uid-key is damaged") {
			t.Errorf("a damaged key: %v", err)
		}
	})
}
