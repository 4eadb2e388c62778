package runonce_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runonce"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a run under test. It lives in a bubble, so that its time is virtual.
type rig struct {
	t       *testing.T
	engine  *podwright.Engine
	source  *source.Channel
	runtime *fake.Runtime
	runner  *runonce.Runner

	begin  time.Time
	ended  chan struct{}
	report runonce.Report
	err    error
}

func newRig(t *testing.T, rt *fake.Runtime, root string, o runonce.Options, configure ...func(*podwright.Config)) *rig {
	t.Helper()
	r := &rig{t: t, runtime: rt, source: source.NewChannel(source.ChannelOptions{NodeName: "n1", MaxPods: -1}), ended: make(chan struct{})}
	var err error
	if r.runner, err = runonce.New(o); err != nil {
		t.Fatal(err)
	}
	config := podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{r.source}, RootDir: root, Node: podwright.Node{Name: "n1"},
		Observe: podwright.Observe{Sinks: []status.StatusSink{r.runner}},
	}
	config.Checkpoints.Reserve = -1 // a megabyte per test
	for _, c := range configure {
		c(&config)
	}
	if r.engine, err = podwright.New(config); err != nil {
		t.Fatal(err)
	}
	return r
}

// start begins the run with these pods.
func (r *rig) start(ctx context.Context, pods ...*v1.Pod) *rig {
	r.t.Helper()
	r.begin = time.Now()
	go func() {
		defer close(r.ended)
		r.report, r.err = r.runner.Run(ctx, r.engine)
	}()
	r.set(pods...)
	return r
}

func (r *rig) set(pods ...*v1.Pod) {
	r.t.Helper()
	if err := r.source.Set(r.t.Context(), pods); err != nil {
		r.t.Fatal(err)
	}
}

// end waits for the end of the run, and returns how long it took.
func (r *rig) end(limit time.Duration) time.Duration {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(limit):
		r.t.Fatalf("the run goes on after %v: %+v", limit, r.engine.Pods())
	}
	return time.Since(r.begin)
}

// outcomes lists the pods of the report with their outcomes and reasons.
func (r *rig) outcomes() string {
	var all []string
	for _, p := range r.report.Pods {
		text := fmt.Sprintf("%s %s", p.Name, p.Outcome)
		if p.Reason != "" {
			text += " " + p.Reason
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func (r *rig) want(outcomes string) {
	r.t.Helper()
	if got := r.outcomes(); got != outcomes {
		r.t.Errorf("outcomes: %s\nwant:     %s\nreport %+v", got, outcomes, r.report)
	}
}

// running counts the containers that run.
func (r *rig) running() (n int) {
	list, err := r.runtime.ListContainers(context.WithoutCancel(r.t.Context()), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range list {
		if c.State == 1 {
			n++
		}
	}
	return n
}

// newPod returns a pod whose containers have names of scripts.
func newPod(name string, policy v1.RestartPolicy, containers ...string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{RestartPolicy: policy, TerminationGracePeriodSeconds: ptr.To[int64](10)},
	}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c, Image: "app:1"})
	}
	return p
}

// scripts returns a runtime in which a container's name decides what it does.
func scripts() *fake.Runtime {
	return fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
		switch l.Container {
		case "done":
			return fake.Script{Exit: &fake.Exit{After: time.Minute}}
		case "long":
			return fake.Script{Exit: &fake.Exit{After: time.Hour}}
		case "fails":
			return fake.Script{Exit: &fake.Exit{After: time.Second, Code: 7}}
		case "fails-late":
			return fake.Script{Exit: &fake.Exit{After: 11 * time.Minute, Code: 7}}
		case "unready":
			return fake.Script{ReadyAfter: time.Hour}
		case "recovers":
			return fake.Script{Crashes: 2, Exit: &fake.Exit{After: time.Second}}
		}
		return fake.Script{}
	}})
}

// RO1, RO2: each kind of pod is reported with its outcome, and the run ends when all are over.
func TestRunEndsWhenEveryPodIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, scripts(), t.TempDir(), runonce.Options{})
		r.start(t.Context(),
			newPod("a-done", v1.RestartPolicyNever, "done"),
			newPod("b-fails", v1.RestartPolicyNever, "fails", "done"),
			newPod("c-recovers", v1.RestartPolicyOnFailure, "recovers"),
			newPod("d-serves", v1.RestartPolicyAlways, "serves"),
			newPod("e-crashes", v1.RestartPolicyAlways, "fails"),
			newPod("f-long", v1.RestartPolicyNever, "long"),
		)
		took := r.end(2 * time.Hour)
		if r.err != nil {
			t.Error(r.err)
		}
		r.want("a-done Succeeded, b-fails Failed Error, c-recovers Succeeded, d-serves Running, e-crashes CannotRun TooManyRestarts, f-long Succeeded")
		if took < time.Hour || took > time.Hour+time.Minute {
			t.Errorf("it took %v, the longest pod an hour", took)
		}
		if n := r.running(); n != 1 {
			t.Errorf("%d containers run, want that of d-serves", n)
		}
		err := r.report.Err()
		if err == nil || strings.Contains(err.Error(), "d-serves") || !strings.Contains(err.Error(), "pod default/b-fails: Failed: Error: container fails ended with code 7") {
			t.Errorf("Err: %v", err)
		}
	})
}

// RO3: a drain at the end leaves nothing running, and the report shows the pods as they were before it.
func TestDrainStopsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, scripts(), t.TempDir(), runonce.Options{Drain: true})
		took := r.start(t.Context(), newPod("serves", v1.RestartPolicyAlways, "serves")).end(time.Minute)
		r.want("serves Running")
		if r.err != nil || r.running() != 0 {
			t.Errorf("error %v, %d containers run", r.err, r.running())
		}
		if took < 5*time.Second {
			t.Errorf("ready for %v, want 5 s", took)
		}
	})
}

// RO2: a run without pods ends at once, without an error.
func TestEmptySourceEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, scripts(), t.TempDir(), runonce.Options{})
		if took := r.start(t.Context()).end(time.Minute); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if r.err != nil || r.report.Err() != nil || len(r.report.Pods) != 0 {
			t.Errorf("error %v, report %+v", r.err, r.report)
		}
	})
}

// RO4: a silent source ends the run after the start limit, and is named.
func TestSilentSourceEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, scripts(), t.TempDir(), runonce.Options{StartLimit: time.Minute})
		r.begin = time.Now()
		go func() {
			defer close(r.ended)
			r.report, r.err = r.runner.Run(t.Context(), r.engine)
		}()
		if took := r.end(time.Hour); took != time.Minute {
			t.Errorf("it took %v", took)
		}
		if !errors.Is(r.err, runonce.ErrLimit) {
			t.Errorf("error %v", r.err)
		}
		if err := r.report.Err(); err == nil || !strings.Contains(err.Error(), "source") {
			t.Errorf("the report does not name the source: %v", err)
		}
	})
}

// RO4: a pull that never returns affects only its own pod.
func TestHungPullIsAPodThatCannotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := scripts()
		rt.Inject(fake.Fault{Match: fake.Match{Method: "PullImage"}, Effect: fake.Effect{Hang: true}})
		r := newRig(t, rt, t.TempDir(), runonce.Options{})
		took := r.start(t.Context(), newPod("hangs", v1.RestartPolicyNever, "done")).end(time.Hour)
		r.want("hangs CannotRun StartLimitExceeded")
		if got := r.report.Pods[0].Message; !strings.Contains(got, "Pulling image") {
			t.Errorf("the message is %q", got)
		}
		if took < 10*time.Minute || took > 11*time.Minute {
			t.Errorf("it took %v, the start limit is 10 min", took)
		}
	})
}

// RO2: a flood of statuses causes a bounded number of looks.
func TestLooksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, scripts(), t.TempDir(), runonce.Options{Limit: 11 * time.Second})
		counted := &lookedAt{Engine: r.engine}
		var pods []*v1.Pod
		for i := range 20 {
			pods = append(pods, newPod(fmt.Sprintf("long-%02d", i), v1.RestartPolicyNever, "long"))
		}
		go func() {
			defer close(r.ended)
			r.report, r.err = r.runner.Run(t.Context(), counted)
		}()
		r.set(pods...)
		stop := time.After(10 * time.Second)
		for more := true; more; {
			if _, err := r.runner.Store(t.Context(), status.Update{PodRef: status.PodRef{UID: "other"}}); err != nil {
				t.Fatal(err)
			}
			select {
			case <-time.After(time.Millisecond):
			case <-stop:
				more = false
			}
		}
		r.end(time.Minute)
		if n := counted.looks.Load(); n < 100 || n > 11*20+20 {
			t.Errorf("%d looks in 11 s, of which 10 s had a status each millisecond", n)
		}
	})
}

// lookedAt counts the looks.
type lookedAt struct {
	runonce.Engine
	looks atomic.Int64
}

func (l *lookedAt) Pods() []v1.Pod {
	l.looks.Add(1)
	return l.Engine.Pods()
}
