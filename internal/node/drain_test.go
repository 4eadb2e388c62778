package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// drained is a node that is drained.
type drained struct {
	calls
	stopErr, listErr error
	known            []podworkers.Explanation
	listed           []*runtime.Pod
	asked            func() // unless nil
	// fails is what a call does with an error.
	fails map[string]error
	// permit forbids removals; nil: none.
	permit Permit
}

func (d *drained) permits(a cleanup.Action) rule.Denial {
	if d.permit == nil {
		return rule.Denial{}
	}
	return d.permit(a)
}

func (d *drained) do(call string, uid types.UID) error {
	d.add(call + " " + string(uid))
	return d.fails[call+" "+string(uid)]
}

func (d *drained) Snapshot() []podworkers.Explanation { return d.known }

func (d *drained) Stop(_ context.Context, mode podworkers.StopMode) error {
	if mode == podworkers.Terminate {
		d.add("terminate")
	}
	return d.stopErr
}

func (d *drained) ListPods(context.Context) ([]*runtime.Pod, error) {
	d.add("list")
	if d.asked != nil {
		d.asked()
	}
	if d.listErr != nil {
		return nil, d.listErr
	}
	return d.listed, nil
}

func (d *drained) ReadNow(_ context.Context, uid types.UID) (*runtime.PodStatus, error) {
	return &runtime.PodStatus{UID: uid}, d.do("read", uid)
}

func (d *drained) KillPod(_ context.Context, _ *v1.Pod, view *runtime.PodStatus, _ *int64) error {
	return d.do("kill", view.UID)
}

func (d *drained) RemovePod(_ context.Context, uid types.UID) error { return d.do("remove", uid) }

func (d *drained) RemovePodDir(_ context.Context, uid types.UID) error { return d.do("folder", uid) }

func (d *drained) run(ctx context.Context) error {
	return Drain{
		Workers: d, Runtime: d, Reader: d, Pods: d, Clock: clock.RealClock{}, Permit: d.permits,
		Kill:   func(p *runtime.Pod) podworkers.UpdateOptions { return podworkers.UpdateOptions{RunningPod: p} },
		Forget: func(uid types.UID) { d.add("forget " + string(uid)) },
	}.Run(ctx)
}

func runningPod(uid types.UID) *runtime.Pod {
	return &runtime.Pod{UID: uid, Containers: []*runtime.Container{{State: runtime.Running}}}
}

// TestDrainRemovesWhatIsLeft of pods the workers know and of those only the runtime knows;
// what still runs is stopped first.
func TestDrainRemovesWhatIsLeft(t *testing.T) {
	d := &drained{known: []podworkers.Explanation{{UID: "known"}}, listed: []*runtime.Pod{runningPod("unknown"), {UID: "dead"}}}
	if err := d.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"terminate", "list", "read unknown", "kill unknown", "remove dead", "folder dead", "forget dead", "remove known", "folder known", "forget known",
		"remove unknown", "folder unknown", "forget unknown",
	}
	if got := d.take(); !slices.Equal(got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
}

// TestDrainNamesThePodsThatAreLeft, and goes on with the others.
func TestDrainNamesThePodsThatAreLeft(t *testing.T) {
	broken := errors.New("broken")
	for call, what := range map[string]string{"read": "broken", "kill": "stop: broken", "remove": "remove from the runtime: broken", "folder": "remove its folder: broken"} {
		d := &drained{listed: []*runtime.Pod{runningPod("a"), runningPod("b")}, fails: map[string]error{call + " a": broken}, stopErr: errors.New("in time")}
		err := d.run(t.Context())
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), "(a): "+what) || !strings.Contains(err.Error(), "not every pod could be stopped: in time") {
			t.Errorf("%s: %v", call, err)
		}
		if got := d.take(); slices.Contains(got, "forget a") || !slices.Contains(got, "forget b") {
			t.Errorf("%s: calls %v", call, got)
		}
	}
}

// TestDrainAsksARuntimeThatIsDown until it answers, after 100 ms, doubling up to 5 s, or
// until its context ends.
func TestDrainAsksARuntimeThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &drained{listErr: errors.New("connection refused")}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := d.run(ctx)
		if err == nil || !strings.Contains(err.Error(), "look for pods that still run: connection refused") {
			t.Errorf("error %v", err)
		}
		// At 0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 11.3 and 16.3 s.
		if got := len(d.take()) - 1; got != 9 {
			t.Errorf("asked %d times", got)
		}
	})
}
