package runonce_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runonce"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/source"
)

// RO2: what the pods had in the runtime is stopped before the run ends.
func TestEndedPodsLeaveNothingRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, scripts(), t.TempDir(), runonce.Options{})
		var pods []*v1.Pod
		for i := range 100 {
			pods = append(pods, newPod(fmt.Sprintf("job-%03d", i), v1.RestartPolicyNever, "done"))
		}
		took := r.start(t.Context(), pods...).end(time.Hour)
		if err := errors.Join(r.err, r.report.Err()); err != nil || len(r.report.Pods) != 100 {
			t.Errorf("%d pods: %v", len(r.report.Pods), err)
		}
		sandboxes, err := r.runtime.ListPodSandbox(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sandboxes {
			if s.State == 0 {
				t.Errorf("the sandbox of %s is ready", s.Metadata.Name)
			}
		}
		if took > 2*time.Minute {
			t.Errorf("it took %v, each pod a minute", took)
		}
	})
}

// RO3: a run that is cancelled leaves the pods as they are, and the next one continues them;
// what had ended is not run again.
func TestNextRunContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := scripts(), t.TempDir()
		pods := []*v1.Pod{newPod("done", v1.RestartPolicyNever, "done"), newPod("long", v1.RestartPolicyNever, "long"), newPod("serves", v1.RestartPolicyAlways, "serves")}
		ctx, cancel := context.WithCancelCause(t.Context())
		first := newRig(t, rt, root, runonce.Options{}).start(ctx, pods...)
		time.AfterFunc(10*time.Minute, func() { cancel(errors.New("told to end")) })
		first.end(time.Hour)
		first.want("done Succeeded, long Unfinished, serves Running")
		if first.err == nil || !strings.Contains(first.err.Error(), "told to end") {
			t.Errorf("error %v", first.err)
		}
		if n := first.running(); n != 2 {
			t.Errorf("%d containers run after the first run, want 2", n)
		}

		second := newRig(t, rt, root, runonce.Options{}).start(t.Context(), pods...)
		if took := second.end(2 * time.Hour); took > 51*time.Minute {
			t.Errorf("the second run took %v, 50 min were left", took)
		}
		second.want("done Succeeded, long Succeeded, serves Running")
		if n := len(rt.Calls(fake.Match{Method: fake.CreateContainer})); n != 3 {
			t.Errorf("%d containers were made in two runs, want 3", n)
		}
		third := newRig(t, rt, root, runonce.Options{}).start(t.Context(), pods...)
		if took := third.end(time.Hour); took > 10*time.Second {
			t.Errorf("a run with nothing to do took %v", took)
		}
		third.want("done Succeeded, long Succeeded, serves Running")
	})
}

// RO4: the limit of the run ends it, whatever its pods do.
func TestLimitEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root, pods := t.TempDir(), []*v1.Pod{newPod("done", v1.RestartPolicyNever, "done"), newPod("long", v1.RestartPolicyNever, "long")}
		r := newRig(t, scripts(), root, runonce.Options{Limit: 30 * time.Minute, Drain: true})
		took := r.start(t.Context(), pods...).end(time.Hour)
		r.want("done Succeeded, long Unfinished")
		if !errors.Is(r.err, runonce.ErrLimit) || took > 31*time.Minute || r.running() != 0 {
			t.Errorf("error %v after %v, %d containers run", r.err, took, r.running())
		}

		// The next run runs what the drain stopped, but not what had ended.
		ctx, cancel := context.WithCancel(t.Context())
		again := newRig(t, r.runtime, root, runonce.Options{Drain: true}).start(ctx, pods...)
		<-time.After(time.Minute)
		if n := again.running(); n != 1 {
			t.Errorf("%d containers run in the next run", n)
		}
		cancel()
		again.end(time.Minute)
		again.want("done Succeeded, long Unfinished")
		if again.err == nil || again.running() != 0 {
			t.Errorf("cancelled: error %v, %d containers run", again.err, again.running())
		}
		last := newRig(t, r.runtime, root, runonce.Options{}).start(t.Context(), pods...)
		last.end(2 * time.Hour)
		last.want("done Succeeded, long Succeeded")
	})
}

// RO3, RO4: a runtime that stops nothing does not hold up a drain forever.
func TestHungDrainEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := scripts()
		rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer}, Effect: fake.Effect{Hang: true}})
		r := newRig(t, rt, t.TempDir(), runonce.Options{Drain: true})
		took := r.start(t.Context(), newPod("serves", v1.RestartPolicyAlways, "serves")).end(time.Hour)
		if r.err == nil || took > 3*time.Minute {
			t.Errorf("error %v after %v", r.err, took)
		}
		r.want("serves Running")
	})
}

// RO2, RO4: the time that a drain takes does not make a pod ready for long enough, or late.
func TestDrainIsNoTimeOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := scripts()
		rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer}, Effect: fake.Effect{Hang: true}})
		o := runonce.Options{Drain: true, Limit: 5 * time.Second, MinReady: 10 * time.Second, StartLimit: 20 * time.Second}
		slow := newPod("slow", v1.RestartPolicyAlways, "unready")
		slow.Spec.Containers[0].ReadinessProbe = &v1.Probe{
			ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"ready"}}}, PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1,
		}
		r := newRig(t, rt, t.TempDir(), o)
		took := r.start(t.Context(), newPod("serves", v1.RestartPolicyAlways, "serves"), slow).end(time.Hour)
		if !errors.Is(r.err, runonce.ErrLimit) || took < 30*time.Second {
			t.Errorf("error %v after %v", r.err, took)
		}
		r.want("serves Unfinished, slow Unfinished NotReady")
	})
}

// RO2: the run waits until a pod that its source drops is stopped, which is no failure, and waits
// for a pod that is added.
func TestPodsComeAndGoDuringTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, scripts(), t.TempDir(), runonce.Options{})
		r.start(t.Context(), newPod("a-long", v1.RestartPolicyNever, "long"), newPod("b-done", v1.RestartPolicyNever, "done"))
		<-time.After(30 * time.Second)
		r.set(newPod("b-done", v1.RestartPolicyNever, "done"), newPod("c-fails", v1.RestartPolicyNever, "fails"))
		took := r.end(time.Hour)
		r.want("a-long Stopped, b-done Succeeded, c-fails Failed Error")
		if took > 2*time.Minute || r.err != nil {
			t.Errorf("error %v after %v", r.err, took)
		}
	})
}

// RO2: a pod that its source drops and wants again gets a second life, and that life counts.
func TestPodThatComesBackLivesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, scripts(), t.TempDir(), runonce.Options{})
		long, done := newPod("a-long", v1.RestartPolicyNever, "long"), newPod("b-long", v1.RestartPolicyNever, "long")
		r.start(t.Context(), long, done)
		<-time.After(30 * time.Second)
		r.set(done)
		<-time.After(100 * time.Millisecond)
		r.set(long, done)
		took := r.end(3 * time.Hour)
		r.want("a-long Succeeded, b-long Succeeded")
		if n := r.runtime.Facts("uid-a-long", "long").Started; n != 2 || took < time.Hour+30*time.Second || r.err != nil {
			t.Errorf("started %d times, error %v after %v", n, r.err, took)
		}
	})
}

// RO1: a refused pod has failed, with the reason, and the others run.
func TestRefusedPodHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, scripts(), t.TempDir(), runonce.Options{}, func(c *podwright.Config) {
			c.Admission.Sources = map[string]admission.SourcePolicy{"": {Security: admission.SecurityBaseline}}
		})
		refused := newPod("a-refused", v1.RestartPolicyAlways, "serves")
		refused.Spec.HostNetwork = true
		took := r.start(t.Context(), refused, newPod("b-done", v1.RestartPolicyNever, "done")).end(time.Hour)
		r.want("a-refused Failed PodSecurity, b-done Succeeded")
		if took > 2*time.Minute || r.err != nil {
			t.Errorf("error %v after %v", r.err, took)
		}
	})
}

// RO4: a service that is never ready cannot run, and its waiting reason is shown; the run does not
// wait for an invalid image name.
func TestPodsThatWaitForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, scripts(), t.TempDir(), runonce.Options{StartLimit: 2 * time.Minute})
		unready := newPod("a-unready", v1.RestartPolicyAlways, "unready")
		unready.Spec.Containers[0].ReadinessProbe = &v1.Probe{
			ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"ready"}}}, PeriodSeconds: 10, TimeoutSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1,
		}
		name := newPod("b-name", v1.RestartPolicyNever, "done")
		name.Spec.Containers[0].Image = "NOT AN IMAGE"
		never := newPod("c-never", v1.RestartPolicyNever, "done")
		never.Spec.Containers[0].Image, never.Spec.Containers[0].ImagePullPolicy = "absent:1", v1.PullNever
		took := r.start(t.Context(), unready, name, never).end(time.Hour)
		r.want("a-unready CannotRun NotReady, b-name CannotRun InvalidImageName, c-never CannotRun ErrImageNeverPull")
		if took < 2*time.Minute || took > 3*time.Minute || r.err != nil {
			t.Errorf("error %v after %v", r.err, took)
		}
	})
}

// RO4: restarts are limited also if no look finds the container waiting for one: each run here is long enough to reset the back-off.
func TestRestartsWithoutAWaitAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, scripts(), t.TempDir(), runonce.Options{Drain: true})
		took := r.start(t.Context(), newPod("job", v1.RestartPolicyOnFailure, "fails-late")).end(3 * time.Hour)
		r.want("job CannotRun TooManyRestarts")
		if n := r.runtime.Facts("uid-job", "fails-late").Started; n != 8 || took > 80*time.Minute || r.err != nil {
			t.Errorf("started %d times, error %v after %v", n, r.err, took)
		}
	})
}

// RO4: an unreadable manifest is a failure in the report, and the pods of other manifests run.
func TestUnreadableManifestIsAFailure(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"bad.yaml":  "kind: [",
		"done.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: done}\nspec:\n  restartPolicy: Never\n  containers: [{name: done, image: app:1}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, scripts(), t.TempDir(), runonce.Options{}, func(c *podwright.Config) {
			files, err := source.NewFile(dir, "n1", source.FileOptions{PollOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			c.Sources = append(c.Sources, files)
		})
		r.start(t.Context()).end(time.Hour)
		r.want("done-n1 Succeeded")
		if err := r.report.Err(); r.err != nil || err == nil || !strings.Contains(err.Error(), "bad.yaml") {
			t.Errorf("error %v, report %v", r.err, err)
		}
	})
}

// RO3: it is an error if the engine cannot run, or ends before its pods; a runner runs once.
func TestEngineThatEndsIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := scripts(), t.TempDir()
		first := newRig(t, rt, root, runonce.Options{}).start(t.Context(), newPod("done", v1.RestartPolicyNever, "done"))
		synctest.Wait()
		second := newRig(t, rt, root, runonce.Options{Drain: true})
		if _, err := second.runner.Run(t.Context(), second.engine); !errors.Is(err, podwright.ErrInUse) {
			t.Errorf("a folder in use: %v", err)
		}
		first.end(time.Hour)
		if _, err := first.runner.Run(t.Context(), first.engine); err == nil {
			t.Error("a runner runs twice")
		}
		closed := newRig(t, scripts(), t.TempDir(), runonce.Options{}).start(t.Context(), newPod("long", v1.RestartPolicyNever, "long"))
		<-time.After(time.Second)
		if err := closed.source.Close(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if took := closed.end(time.Hour); took > time.Minute || closed.err == nil {
			t.Errorf("all sources closed: error %v after %v", closed.err, took)
		}
		closed.want("long Unfinished")
	})
}

// RO1: without the runner among the sinks, a run is late but right.
func TestRunWithoutSinkIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, scripts(), t.TempDir(), runonce.Options{}, func(c *podwright.Config) { c.Observe.Sinks = nil })
		took := r.start(t.Context(), newPod("done", v1.RestartPolicyNever, "done"), newPod("serves", v1.RestartPolicyAlways, "serves")).end(time.Hour)
		r.want("done Succeeded, serves Running")
		if took > 2*time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}
