package pods_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// starts are the actions that started a container or tried to.
func starts(r pods.Result) (out []pods.Action) {
	for _, a := range r.Actions {
		if a.Step == "StartContainer" {
			out = append(out, a)
		}
	}
	return out
}

// spec/runtime.md 7.3: every step is reported with what it did it to and how it
// went; a failed start is remembered until the next, and the result is the sum.
func TestResultOfEveryStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(l fake.Launch) fake.Script {
			if l.Container == "bad" && l.Number == 1 {
				return fake.Script{StartErr: runtime.ErrInvalid}
			}
			return fake.Script{}
		})
		pod := newPod(func(p *v1.Pod) { p.Spec.Containers = []v1.Container{container("bad"), container("good")} })
		r := w.sync(pod)
		var got []string
		for _, a := range r.Actions {
			got = append(got, strings.TrimSpace(fmt.Sprint(a.Step, " ", a.Target, " ", a.Reason)))
			if failed := a.Reason != ""; failed != (a.Err != nil) || failed != (a.Message != "") {
				t.Errorf("7.3: %+v", a)
			}
		}
		if want := []string{"CreateSandbox web", "StartContainer bad RunContainerError", "StartContainer good"}; !slices.Equal(got, want) {
			t.Errorf("7.3: actions %q, want %q", got, want)
		}
		if !errors.Is(r.Err, runtime.ErrInvalid) {
			t.Errorf("7.3: result %v", r.Err)
		}
		if got := w.m.WaitingReasons(pod.UID); got["bad"].Reason != "RunContainerError" || len(got) != 1 {
			t.Errorf("7.3: reasons %v", got)
		}
		if r = w.sync(pod); r.Err != nil || len(w.m.WaitingReasons(pod.UID)) != 0 {
			t.Errorf("7.3: after a success: %v, reasons %v", r.Err, w.m.WaitingReasons(pod.UID))
		}
	})
}

// Edge case 2: of two ready sandboxes neither is kept, the new one has the number
// after the newest, and init runs again without its old records.
func TestTwoReadySandboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pod := initialized(t)
		first := w.fake.Calls(fake.Match{Method: fake.RunPodSandbox})[0].Request.(*runtimeapi.RunPodSandboxRequest).GetConfig()
		first.Metadata.Attempt = 4
		if _, err := w.fake.RunPodSandbox(t.Context(), first, ""); err != nil {
			t.Fatal(err)
		}
		old := w.read(pod).Container("init").ID
		w.syncAll(pod)
		w.wantState(pod, "init:running app:exited")
		status := w.read(pod)
		if status.Sandboxes[0].Attempt != 5 || status.Sandboxes[0].State != runtime.Running {
			t.Errorf("edge 2: attempt %d", status.Sandboxes[0].Attempt)
		}
		for _, s := range status.Sandboxes[1:] {
			if s.State == runtime.Running {
				t.Errorf("edge 2: sandbox %d is still ready", s.Attempt)
			}
		}
		for _, c := range status.Containers {
			if c.ID == old {
				t.Error("edge 2: the old record of init is still there")
			}
		}
	})
}

// No lock is held over a call of the runtime: while any call of a pod is under
// way, everything the manager can be asked about it and others answers.
func TestNoLockOverCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		asked := map[fake.Method]bool{}
		w.fake.Inject(fake.Fault{Match: fake.Match{Func: func(c fake.Call) bool {
			// If a lock were held, this would wait forever.
			w.m.WaitingReasons("uid-1")
			w.m.Forget("somebody else")
			asked[c.Method] = true
			return false
		}}})
		pod := newPod(func(p *v1.Pod) {
			run := &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: run, PreStop: run}
		})
		w.syncAll(pod)
		if err := w.m.KillPod(t.Context(), pod, w.read(pod), nil); err != nil {
			t.Error(err)
		}
		if err := w.m.RemovePod(t.Context(), pod.UID); err != nil {
			t.Error(err)
		}
		for _, m := range []fake.Method{
			fake.RunPodSandbox, fake.PodSandboxStatus, fake.PullImage, fake.ImageStatus, fake.CreateContainer, fake.StartContainer,
			fake.ExecSync, fake.StopContainer, fake.StopPodSandbox, fake.RemoveContainer, fake.RemovePodSandbox,
		} {
			if !asked[m] {
				t.Errorf("no call of %s was seen", m)
			}
		}
	})
}
