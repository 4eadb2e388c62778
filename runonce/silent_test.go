package runonce_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runonce"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/source"
)

// withSilent adds a source that is never heard.
func withSilent(c *podwright.Config) {
	c.Sources = append(c.Sources, source.NewChannel(source.ChannelOptions{Name: "silent", NodeName: "n1"}))
}

// deafScripts is scripts with a container that ignores SIGTERM.
func deafScripts() *fake.Runtime {
	return fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
		switch l.Container {
		case "done":
			return fake.Script{Exit: &fake.Exit{After: time.Minute}}
		case "deaf":
			return fake.Script{IgnoreTERM: true}
		}
		return fake.Script{}
	}})
}

// RO3, RO4: a run that ends before a source was heard reports the pods of the others, and its drain gives them their grace.
func TestSilentSourceHidesNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, deafScripts(), t.TempDir(), runonce.Options{StartLimit: 5 * time.Minute, Drain: true}, withSilent)
		deaf := newPod("deaf", v1.RestartPolicyAlways, "deaf")
		deaf.Spec.TerminationGracePeriodSeconds = ptr.To[int64](180)
		took := r.start(t.Context(), newPod("done", v1.RestartPolicyNever, "done"), deaf).end(time.Hour)
		r.want("deaf Running, done Succeeded")
		if !errors.Is(r.err, runonce.ErrLimit) || errors.Is(r.err, context.DeadlineExceeded) || r.running() != 0 {
			t.Errorf("error %v, %d containers run", r.err, r.running())
		}
		if took < 8*time.Minute || took > 9*time.Minute {
			t.Errorf("it took %v, the limit is 5 min and the grace 3 min", took)
		}
	})
}

// RO4: the same if the context ends.
func TestSilentSourceHidesNoPodOfACancelledRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := newRig(t, deafScripts(), t.TempDir(), runonce.Options{}, withSilent)
		r.start(ctx, newPod("done", v1.RestartPolicyNever, "done"), newPod("serves", v1.RestartPolicyAlways, "serves"))
		<-time.After(30 * time.Second)
		cancel()
		r.end(time.Minute)
		r.want("done Unfinished, serves Running")
		if !errors.Is(r.err, context.Canceled) || r.running() != 2 {
			t.Errorf("error %v, %d containers run", r.err, r.running())
		}
	})
}

// RO2, RO3: what an earlier run has left, and no source wants any more, is not of this run, however late all sources are
// heard; and the time until then is no time in which the pods wait.
func TestPodsOfAnEarlierRunAreNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root, rt := t.TempDir(), scripts()
		first := newRig(t, rt, root, runonce.Options{}).start(t.Context(), newPod("old", v1.RestartPolicyNever, "fails"), newPod("serves", v1.RestartPolicyAlways, "serves"))
		first.end(time.Hour)
		first.want("old Failed Error, serves Running")

		late := source.NewChannel(source.ChannelOptions{Name: "late", NodeName: "n1"})
		second := newRig(t, rt, root, runonce.Options{StartLimit: 5 * time.Minute}, func(c *podwright.Config) { c.Sources = append(c.Sources, late) })
		second.begin = time.Now()
		go func() {
			defer close(second.ended)
			second.report, second.err = second.runner.Run(t.Context(), second.engine)
		}()
		<-time.After(time.Minute) // the pods of the earlier run stand in for the first source
		if pods := second.engine.Pods(); len(pods) != 2 {
			t.Errorf("%d pods", len(pods))
		}
		slow := newPod("slow", v1.RestartPolicyAlways, "unready")
		slow.Spec.Containers[0].ReadinessProbe = &v1.Probe{
			ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"ready"}}}, PeriodSeconds: 10, TimeoutSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1,
		}
		second.set(newPod("serves", v1.RestartPolicyAlways, "serves"), slow)
		<-time.After(3 * time.Minute)
		if err := late.Set(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		took := second.end(time.Hour)
		second.want("serves Running, slow CannotRun NotReady")
		if second.err != nil || took < 9*time.Minute || took > 10*time.Minute {
			t.Errorf("error %v after %v", second.err, took)
		}
	})
}
