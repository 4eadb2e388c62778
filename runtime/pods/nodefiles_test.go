package pods_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// deadServer makes the calls about files of the node that have text in their names hang until the server is back. It counts them.
func deadServer(w *world, text string) (calls *atomic.Int32, back func()) {
	calls, alive := &atomic.Int32{}, make(chan struct{})
	w.m.HangNodeFiles(func(name string) {
		if strings.Contains(name, text) {
			calls.Add(1)
			<-alive
		}
	})
	return calls, func() { close(alive); synctest.Wait() }
}

func hostFolder(path string) v1.VolumeSource {
	return v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: ptr.To(v1.HostPathDirectory)}}
}

// spec/runtime.md 12.8: a path of the node whose server is gone holds only the containers that start with it, and is looked at
// once, however often the pod is synced.
func TestDeadHostPathHoldsItsOwnContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := volumeWorld(t)
		host := t.TempDir()
		pod := newPod(mounting(hostFolder(host)), func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, container("free")) })
		w.syncAll(pod)
		calls, back := deadServer(w, host)
		crash := func(names ...string) {
			for _, name := range names {
				if err := w.fake.Exit(pod.UID, name, fake.Exit{Code: 1}); err != nil {
					t.Error(err)
				}
			}
		}
		crash("free")
		began := time.Now()
		w.sync(pod)
		w.wantState(pod, "app:running free:running")
		if took := time.Since(began); took != 31*second {
			t.Errorf("the step took %v", took)
		}
		if want := "Warning FailedMount  MountVolume.SetUp failed for volume \"v\" of type hostPath: the look at hostPath \"" + host + "\", called at "; !w.events.has(want) {
			t.Errorf("%q, want %q", w.events.list(), want)
		}
		pass(1200 * second)
		crash("free", "app")
		began = time.Now()
		w.sync(pod)
		w.wantState(pod, "app:exited free:running")
		if took := time.Since(began); took != 0 || calls.Load() != 1 {
			t.Errorf("a later step took %v, %d calls", took, calls.Load())
		}
		list := w.m.Problems()
		if len(list) != 1 || list[0].Name != "default/web" || !strings.Contains(list[0].Waits, host) {
			t.Errorf("problems %v", list)
		}
		back()
		pass(600 * second)
		w.syncAll(pod)
		w.wantState(pod, "app:running free:running")
		if list := w.m.Problems(); len(list) != 0 {
			t.Errorf("problems %v when the server is back", list)
		}
	})
}

// spec/runtime.md 12.8, podworkers.md edge case 15: a step that waits for a file system whose server is gone ends with its
// context, the pod is stopped, and what is mounted is not taken for unmounted.
func TestStepEndsWhileAFileSystemIsDead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	sub := func(vm *v1.VolumeMount) { vm.SubPath = "part" }
	inside := func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "files", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{}}})
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
			v1.VolumeMount{Name: "files", MountPath: "/files"}, v1.VolumeMount{Name: "v", MountPath: "/files/inside"})
	}
	host := t.TempDir()
	for name, tc := range map[string]struct {
		hangs string
		pod   func(*v1.Pod)
		torn  string // the error of TearDownVolumes meanwhile
	}{
		"hostPath":                {hangs: "hostPath", pod: mounting(hostFolder(host))},
		"a sub-path is opened":    {hangs: "a sub-path", pod: mounting(hostFolder(host), sub)},
		"a sub-path is mounted":   {hangs: "sub-path mounts", pod: mounting(hostFolder(host), sub), torn: "the change of sub-path mounts, called at"},
		"a mount inside a volume": {hangs: "what is mounted", pod: func(p *v1.Pod) { mounting(hostFolder(host))(p); inside(p) }},
		"fsGroup": {hangs: "to group 7", pod: func(p *v1.Pod) {
			mounting(nfs)(p)
			p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](7)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := volumeWorld(t, func(o *pods.Options) {
					o.Volumes = &disks{volume: pods.MountedVolume{HostPath: host, FSGroup: true}}
				})
				pod := newPod(tc.pod)
				calls, back := deadServer(w, tc.hangs)
				ctx, cancel := context.WithTimeout(t.Context(), 5*second)
				defer cancel()
				began := time.Now()
				r := w.m.SyncPod(ctx, pod, nil)
				if took := time.Since(began); took > 6*second || !errors.Is(r.Err, context.DeadlineExceeded) {
					t.Errorf("the step ended after %v with %v", took, r.Err)
				}
				if err := w.m.KillPod(t.Context(), pod, w.read(pod), nil); err != nil || w.read(pod).Running() {
					t.Errorf("the pod is not stopped: %v", err)
				}
				err := w.m.TearDownVolumes(t.Context(), pod.UID)
				if tc.torn == "" && err != nil || tc.torn != "" && (err == nil || !strings.Contains(err.Error(), tc.torn) || pods.RemovalRule(err) != rule.MaybeMounted) {
					t.Errorf("torn down: %v, want %q", err, tc.torn)
				}
				if calls.Load() != 1 {
					t.Errorf("%d calls hang", calls.Load())
				}
				back()
				if n := held(t, w); tc.torn == "" && n != 0 {
					t.Errorf("%d sub-paths are held by a call that came too late", n)
				}
			})
		})
	}
}

// spec/runtime.md 12.8: a start that is cut off still releases its sub-paths, if their file system answers.
func TestCutOffStartReleasesItsSubPaths(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	synctest.Test(t, func(t *testing.T) {
		w, _ := volumeWorld(t)
		pod := newPod(mounting(hostFolder(t.TempDir()), func(vm *v1.VolumeMount) { vm.SubPath = "part" }))
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.StartContainer}, Effect: fake.Effect{Delay: 600 * second}})
		ctx, cancel := context.WithTimeout(t.Context(), 60*second)
		defer cancel()
		if r := w.m.SyncPod(ctx, pod, nil); !errors.Is(r.Err, context.DeadlineExceeded) {
			t.Error(r.Err)
		}
		if n := held(t, w); n != 0 {
			t.Errorf("%d are still held", n)
		}
	})
}
