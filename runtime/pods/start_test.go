package pods_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

func imageSpec(name string) *runtimeapi.ImageSpec { return &runtimeapi.ImageSpec{Image: name} }

// One pod, one container, image present: at most 6 calls to start it, at most 4
// to stop it.
func TestCallCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod()
		withImages(w, pod)
		// The runtime's name is asked for once per manager.
		if _, err := w.view.ListPods(t.Context()); err != nil {
			t.Fatal(err)
		}
		status := w.read(pod)
		before := len(w.fake.Calls(fake.Match{}))
		if r := w.m.SyncPod(t.Context(), pod, status); r.Err != nil {
			t.Fatal(r.Err)
		}
		start := w.fake.Calls(fake.Match{})[before:]
		t.Logf("start: %d calls: %v", len(start), methods(start))
		if len(start) > 6 {
			t.Errorf("starting took %d calls: %v", len(start), methods(start))
		}
		w.wantState(pod, "app:running")

		// Have the manager's own view know the runtime's name.
		if err := w.m.KillPod(t.Context(), newPod(func(p *v1.Pod) { p.UID = "other" }), nil, nil); err != nil {
			t.Fatal(err)
		}
		status = w.read(pod)
		before = len(w.fake.Calls(fake.Match{}))
		if err := w.m.KillPod(t.Context(), pod, status, nil); err != nil {
			t.Fatal(err)
		}
		stop := w.fake.Calls(fake.Match{})[before:]
		t.Logf("stop: %d calls: %v", len(stop), methods(stop))
		if len(stop) > 4 {
			t.Errorf("stopping took %d calls: %v", len(stop), methods(stop))
		}
		w.wantState(pod, "app:exited")
	})
}

func methods(calls []fake.Call) []string {
	var out []string
	for _, c := range calls {
		out = append(out, string(c.Method))
	}
	return out
}

// spec/runtime.md 7, 8: sandbox, init in order, sidecar before the apps; events
// with field paths.
func TestStartOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(l fake.Launch) fake.Script {
			if strings.HasPrefix(l.Container, "init") {
				return fake.Script{Exit: &fake.Exit{After: second}}
			}
			return fake.Script{}
		})
		pod := newPod(func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{container("init0"), sidecar("side"), container("init2")}
			p.Spec.Containers = append(p.Spec.Containers, container("app2"))
		})
		for range 5 {
			w.syncAll(pod)
			pass(2 * second)
		}
		w.wantState(pod, "init0:exited side:running init2:exited app:running app2:running")
		want := []string{
			"RunPodSandbox", "StartContainer init0", "StartContainer side", "StartContainer init2",
			"StartContainer app", "StartContainer app2",
		}
		if got := w.calls(fake.RunPodSandbox, fake.StartContainer); !slices.Equal(got, want) {
			t.Errorf("7: order %v, want %v", got, want)
		}
		for _, e := range []string{
			"Normal Pulling spec.initContainers{init0}", "Normal Created spec.initContainers{side}",
			"Normal Started spec.containers{app2}",
		} {
			if !w.events.has(e) {
				t.Errorf("22.3: no event %q in %v", e, w.events.list())
			}
		}
		if r := w.syncAll(pod); len(r.Actions) != 0 {
			t.Errorf("a pod at rest is acted upon: %+v", r.Actions)
		}
	})
}

// What the runtime is told must be enough to find the pod again.
func TestSandboxAndContainerIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod()
		w.syncAll(pod)
		status := w.read(pod)
		if len(status.Sandboxes) != 1 || len(status.Containers) != 1 {
			t.Fatalf("%d sandboxes, %d containers", len(status.Sandboxes), len(status.Containers))
		}
		if got := status.Sandboxes[0].Labels[runtime.LabelOwner]; got != "test" {
			t.Errorf("1.9: owner %q", got)
		}
		if c := status.Containers[0]; c.Labels[runtime.LabelContainerName] != "app" || c.Hash == 0 {
			t.Errorf("2.1, 2.2: labels %v hash %x", c.Labels, c.Hash)
		}
		if status.Containers[0].LogPath != w.opts.LogDir+"/default_web_uid-1/app/0.log" {
			t.Errorf("18.1: log path %q", status.Containers[0].LogPath)
		}
	})
}

// A broken definition holds back its own container only, with the reason people
// look for.
func TestStartFailures(t *testing.T) {
	unsupported := v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/"}}
	for _, tc := range []struct {
		name, reason, event string
		change              func(*v1.Pod)
		script              fake.Script
	}{
		{
			name: "11.2 secret", reason: "CreateContainerConfigError", event: "Warning Failed spec.containers{app} Error: ",
			change: func(p *v1.Pod) {
				p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{
					SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "s"}, Key: "k"},
				}}}
			},
		},
		{
			name: "12.1 volume kind", reason: "ContainerCreating", event: "Warning FailedMount",
			change: func(p *v1.Pod) {
				p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: unsupported}}
				p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
			},
		},
		{
			name: "12.1, 12.6 device", reason: "ContainerCreating", event: "Warning FailedMount",
			change: func(p *v1.Pod) {
				p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: unsupported}}
				p.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "v", DevicePath: "/dev/v"}}
			},
		},
		{
			name: "14.3 non-root", reason: "CreateContainerConfigError", event: "Warning Failed",
			change: func(p *v1.Pod) {
				p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}
			},
		},
		{
			name: "9.2 image name", reason: "InvalidImageName", event: "Warning InspectFailed spec.containers{app}",
			change: func(p *v1.Pod) { p.Spec.Containers[0].Image = "Not An Image" },
		},
		{
			name: "9.2 never pull", reason: "ErrImageNeverPull", event: "Warning ErrImageNeverPull",
			change: func(p *v1.Pod) { p.Spec.Containers[0].ImagePullPolicy = v1.PullNever },
		},
		{
			name: "create", reason: "CreateContainerError", event: "Warning Failed",
			script: fake.Script{CreateErr: context.DeadlineExceeded},
		},
		{
			name: "start", reason: "RunContainerError", event: "Warning Failed",
			script: fake.Script{StartErr: runtime.ErrInvalid},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(l fake.Launch) fake.Script {
					if l.Container == "app" {
						return tc.script
					}
					return fake.Script{}
				})
				pod := newPod(func(p *v1.Pod) {
					p.Spec.Containers = append(p.Spec.Containers, container("good"))
					if tc.change != nil {
						tc.change(p)
						p.Spec.Containers[1].SecurityContext = &v1.SecurityContext{RunAsNonRoot: ptr.To(false)}
					}
				})
				r := w.sync(pod)
				if len(starts(r)) != 2 || starts(r)[0].Reason != tc.reason || starts(r)[0].Err == nil || r.Err == nil {
					t.Fatalf("starts %+v, err %v; want reason %s", starts(r), r.Err, tc.reason)
				}
				if got := w.m.WaitingReasons(pod.UID); got["app"].Reason != tc.reason || len(got) != 1 {
					t.Errorf("22.2: waiting reasons %v", got)
				}
				if starts(r)[1].Err != nil {
					t.Errorf("the other container suffers: %v", starts(r)[1].Err)
				}
				if !w.events.has(tc.event) || tc.event == "Warning FailedMount" && w.events.has("Warning Failed ") {
					t.Errorf("no event %q, or one too many, in %v", tc.event, w.events.list())
				}
			})
		})
	}
}

// Names that are no path elements never reach the disk or the runtime.
func TestBadNames(t *testing.T) {
	for name, change := range map[string]func(*v1.Pod){
		"uid":           func(p *v1.Pod) { p.UID = "../../etc" },
		"namespace":     func(p *v1.Pod) { p.Namespace = "a/b" },
		"container":     func(p *v1.Pod) { p.Spec.Containers[0].Name = ".." },
		"control":       func(p *v1.Pod) { p.Spec.Containers[0].Name = "a\nb" },
		"twice":         func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{container("app")} },
		"empty pod uid": func(p *v1.Pod) { p.UID = "" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			r := w.m.SyncPod(t.Context(), newPod(change), nil)
			if r.Err == nil || !strings.Contains(r.Err.Error(), "ConfigPodSandboxError") {
				t.Errorf("err %v", r.Err)
			}
			if calls := w.fake.Calls(fake.Match{}); len(calls) != 0 {
				t.Errorf("the runtime was called: %v", methods(calls))
			}
		})
	}
}

// spec/runtime.md 17.5: the first restart is immediate, then 10, 20, 40 s after
// each exit, up to the maximum.
func TestCrashLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(fake.Launch) fake.Script {
			return fake.Script{Exit: &fake.Exit{After: second, Code: 1}}
		})
		pod := newPod()
		var started []time.Duration
		began := time.Now()
		for time.Since(began) < 30*time.Minute && len(started) < 9 {
			r := w.sync(pod)
			if len(starts(r)) != 1 {
				t.Fatalf("starts %+v", starts(r))
			}
			if s := starts(r)[0]; s.Err != nil {
				if s.Reason != "CrashLoopBackOff" || r.Acted || !r.RetryAt.After(time.Now()) {
					t.Fatalf("start %+v, acted %v, retry at %v", s, r.Acted, r.RetryAt)
				}
				pass(time.Until(r.RetryAt))
				continue
			}
			started = append(started, time.Since(began))
			pass(second) // the container's run
			if len(started) == 6 {
				// spec/runtime.md 17.6: a new process knows the delay again.
				w.restart()
			}
		}
		var gaps []time.Duration
		for i := 1; i < len(started); i++ {
			gaps = append(gaps, started[i]-started[i-1])
		}
		// Each run takes a second.
		want := []time.Duration{1, 11, 21, 41, 81, 161, 301, 301}
		for i := range want {
			want[i] *= second
		}
		if !slices.Equal(gaps, want) {
			t.Errorf("17.5: gaps %v, want %v", gaps, want)
		}
		if !w.events.has("Warning BackOff spec.containers{app}") {
			t.Error("17.3: no BackOff event")
		}
		if got := w.read(pod).Container("app").RestartCount; got != 8 {
			t.Errorf("2.8: restart count %d, want 8", got)
		}
	})
}

// spec/runtime.md 9.3: a failed pull is not repeated at once.
func TestPullBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.fake.Inject(fake.Fault{
			Match: fake.Match{Method: fake.PullImage}, Times: 2,
			Effect: fake.Effect{Err: runtime.ErrUnavailable},
		})
		pod := newPod()
		if r := w.sync(pod); starts(r)[0].Reason != "ErrImagePull" {
			t.Fatalf("9.7: %+v", starts(r))
		}
		r := w.sync(pod)
		if starts(r)[0].Reason != "ImagePullBackOff" || time.Until(r.RetryAt) != 10*second {
			t.Fatalf("9.3: %+v, retry in %v", starts(r), time.Until(r.RetryAt))
		}
		pass(time.Until(r.RetryAt))
		if r := w.sync(pod); starts(r)[0].Reason != "ErrImagePull" {
			t.Fatalf("9.3: after the delay: %+v", starts(r))
		}
		if r = w.sync(pod); time.Until(r.RetryAt) != 20*second {
			t.Fatalf("9.3: second delay %v", time.Until(r.RetryAt))
		}
		pass(time.Until(r.RetryAt))
		w.syncAll(pod)
		w.wantState(pod, "app:running")
		if left := w.m.WaitingReasons(pod.UID); len(left) != 0 {
			t.Errorf("22.2: waiting reasons after the start: %v", left)
		}
		for _, e := range []string{"Normal Pulling", "Warning Failed", "Normal BackOff", "Normal Pulled"} {
			if !w.events.has(e) {
				t.Errorf("9.11: no event %q", e)
			}
		}
	})
}

// Giving up during a pull starts nothing afterwards and raises no event.
func TestCancelDuringPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage}, Effect: fake.Effect{Hang: true}})
		pod := newPod()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*second, cancel)
		began := time.Now()
		r := w.m.SyncPod(ctx, pod, nil)
		if took := time.Since(began); took != 5*second {
			t.Errorf("returned after %v", took)
		}
		if r.Err == nil || len(starts(r)) != 0 {
			t.Errorf("err %v, starts %v", r.Err, starts(r))
		}
		if n := w.fake.CallCount(fake.CreateContainer); n != 0 {
			t.Errorf("%d containers created", n)
		}
		if w.events.has("Warning") {
			t.Errorf("there are events: %v", w.events.list())
		}
	})
}

// spec/runtime.md 9.4: pulls have no limit by default.
func TestParallelPulls(t *testing.T) {
	for _, tc := range []struct{ limit, want int }{{0, 5}, {1, 1}, {3, 3}, {-1, 5}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil, func(o *pods.Options) { o.MaxParallelImagePulls = tc.limit })
			w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage}, Effect: fake.Effect{Delay: second}})
			done := make(chan pods.Result)
			for i := range 5 {
				pod := newPod(func(p *v1.Pod) {
					p.UID = types.UID(fmt.Sprint("uid-", i))
					p.Spec.Containers[0].Image = fmt.Sprintf("example.com/image%d:1", i)
				})
				go func() { done <- w.m.SyncPod(t.Context(), pod, nil) }()
			}
			synctest.Wait()
			if now, _ := w.fake.InFlight(); now != tc.want {
				t.Errorf("9.4: limit %d: %d pulls in flight, want %d", tc.limit, now, tc.want)
			}
			for range 5 {
				if r := <-done; r.Err != nil {
					t.Error(r.Err)
				}
			}
		})
	}
}

// spec/runtime.md 12.5, 20: the message of the last run stays while the next start fails.
func TestFailedStartsKeepTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(fake.Launch) fake.Script { return exits(1) })
		pod := newPod()
		w.syncAll(pod)
		pass(second)
		if err := os.WriteFile(w.read(pod).Container("app").Mounts["/dev/termination-log"], []byte("last words"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer}, Effect: fake.Effect{Err: runtime.ErrInvalid}})
		for range 500 {
			w.sync(pod)
			pass(10 * second)
		}
		if got := w.m.TerminationMessage(w.read(pod).Container("app")); got != "last words" || w.fake.CallCount(fake.CreateContainer) < 12 {
			t.Errorf("12.5: message %q after %d attempts", got, w.fake.CallCount(fake.CreateContainer)-1)
		}
	})
}
