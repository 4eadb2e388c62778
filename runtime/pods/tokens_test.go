package pods_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// cannotLook are cgroups that cannot be looked up while they are broken.
type cannotLook struct {
	*memoryCgroups
	broken bool
}

func (c *cannotLook) Exists(p pods.PodCgroup) (bool, error) {
	if c.broken {
		return false, errors.New("broken")
	}
	return c.memoryCgroups.Exists(p)
}

// spec/runtime.md 25.2: containers that run get new tokens in every step, whatever another part of the step fails at.
func TestTokensAreRenewedWhateverFails(t *testing.T) {
	for name, stick := range map[string]func(w *resizeWorld, cgroups *cannotLook, pod *v1.Pod){
		"nothing": func(*resizeWorld, *cannotLook, *v1.Pod) {},
		"a memory limit cannot be lowered": func(w *resizeWorld, _ *cannotLook, pod *v1.Pod) {
			w.cgroups.usage = 3500
			needing(&pod.Spec.Containers[1], "1", "1000")
		},
		"a container cannot be stopped": func(w *resizeWorld, _ *cannotLook, pod *v1.Pod) {
			w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer}, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
			pod.Spec.Containers[1].Image = "example.com/other:1"
		},
		"the cgroup is not found for a container that starts again": func(w *resizeWorld, cgroups *cannotLook, pod *v1.Pod) {
			if err := w.fake.Exit(pod.UID, "b", fake.Exit{Code: 1}); err != nil {
				w.t.Error(err)
			}
			cgroups.broken = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, source := newResizeWorld(t, true), &issuer{text: "first"}
				cgroups := &cannotLook{memoryCgroups: w.cgroups}
				w.opts.Cgroups, w.opts.Projections = cgroups, pods.Projections{Token: source}
				w.endMounts()
				w.reload()
				pod := apps("1 2000", "1 2000")
				mounting(projected(tokenFor("vault")))(pod)
				w.to(pod)
				w.wantState(pod, "a:running b:running")
				stick(w, cgroups, pod)
				source.set("second", nil)
				if r := w.to(pod); (r.Err == nil) != (name == "nothing") {
					t.Errorf("the step ended with %v", r.Err)
				}
				if got := shown(w.world, "token"); !strings.HasPrefix(got, "second") {
					t.Errorf("25.2: the running container has the token %q", got)
				}
			})
		})
	}
}
