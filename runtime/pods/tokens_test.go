package pods_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

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

// hangingDisks do not set anything up before their context ends, once they hang.
type hangingDisks struct {
	disks
	hang bool
}

func (d *hangingDisks) SetUp(ctx context.Context, pod *v1.Pod, v *v1.Volume) (pods.MountedVolume, error) {
	if d.hang {
		<-ctx.Done()
		return pods.MountedVolume{}, ctx.Err()
	}
	return d.disks.SetUp(ctx, pod, v)
}

// IN15, 25.2: while a step waits for one container, the others get new tokens: within a minute, and at once if the pod is told.
func TestTokensAreRenewedWhileAStepWaits(t *testing.T) {
	hook := &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 3600}}
	for name, stick := range map[string]func(w *world, d *hangingDisks, pod *v1.Pod){
		"for a stop": func(_ *world, _ *hangingDisks, pod *v1.Pod) { pod.Spec.Containers[1].Image = "example.com/other:1" },
		"for a postStart hook": func(w *world, _ *hangingDisks, pod *v1.Pod) {
			pod.Spec.Containers[1].Lifecycle = &v1.Lifecycle{PostStart: hook}
			if err := w.fake.Exit(pod.UID, "b", fake.Exit{Code: 1}); err != nil {
				w.t.Error(err)
			}
		},
		"for a volume of a manager": func(w *world, d *hangingDisks, pod *v1.Pod) {
			d.hang = true
			if err := w.fake.Exit(pod.UID, "b", fake.Exit{Code: 1}); err != nil {
				w.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, d := &issuer{text: "first"}, &hangingDisks{disks: disks{volume: pods.MountedVolume{HostPath: t.TempDir()}}}
				w := newWorld(t, stubborn, func(o *pods.Options) { o.Projections, o.Volumes = pods.Projections{Token: source}, d })
				w.endMounts()
				pod := newPod(mounting(projected(tokenFor("vault"))), func(p *v1.Pod) {
					p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3600)
					b := container("b")
					b.VolumeMounts = []v1.VolumeMount{{Name: "disk", MountPath: "/disk"}}
					p.Spec.Containers = append(p.Spec.Containers, b)
					p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "disk", VolumeSource: nfs})
				})
				w.syncAll(pod)
				stick(w, d, pod)
				ctx, cancel := context.WithCancel(t.Context())
				var step sync.WaitGroup
				status := w.read(pod)
				step.Go(func() { w.m.SyncPod(ctx, pod, status) })
				defer step.Wait()
				defer cancel()
				pass(30 * time.Second)
				source.set("second", nil)
				pass(61 * time.Second)
				synctest.Wait()
				if got := shown(w, "token"); !strings.HasPrefix(got, "second") {
					t.Errorf("25.2: the running container has the token %q", got)
				}
				source.set("third", nil)
				w.m.Refresh(pod.UID)
				synctest.Wait()
				if got := shown(w, "token"); !strings.HasPrefix(got, "third") {
					t.Errorf("IN15: after the pod was told, the running container has the token %q", got)
				}
			})
		})
	}
}

// silentIssuer gives no answer once it is silent.
type silentIssuer struct {
	issuer
	silent bool
}

func (i *silentIssuer) Token(ctx context.Context, pod *v1.Pod, s *v1.ServiceAccountTokenProjection) (string, error) {
	if i.silent {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return i.issuer.Token(ctx, pod, s)
}

// 25.2: an issuer that does not answer keeps no container from being stopped: it is asked after that.
func TestStopWaitsForNoIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &silentIssuer{issuer: issuer{text: "first"}}
		w := newWorld(t, nil, func(o *pods.Options) { o.Projections = pods.Projections{Token: source} })
		w.endMounts()
		pod := newPod(mounting(projected(tokenFor("vault"))), func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, container("b")) })
		w.syncAll(pod)
		before, status := w.fake.Facts(pod.UID, "b").Running, w.read(pod)
		pod.Spec.Containers[1].Image = "example.com/other:1"
		source.silent = true
		ctx, cancel := context.WithCancel(t.Context())
		var step sync.WaitGroup
		step.Go(func() { w.m.SyncPod(ctx, pod, status) })
		pass(time.Second)
		synctest.Wait()
		if after := w.fake.Facts(pod.UID, "b").Running; before != 1 || after != 0 {
			t.Errorf("%d containers run before, and %d a second after the step has begun", before, after)
		}
		cancel()
		step.Wait()
	})
}
