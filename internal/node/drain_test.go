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
	stops            func(ctx context.Context) error // unless nil, instead of stopErr
	known            []podworkers.Explanation
	listed           []*runtime.Pod
	stale            bool   // listed has what was removed too
	asked            func() // unless nil
	// fails is what a call does with an error.
	fails map[string]error
	// stuck, unless nil, is asked by each call before it returns.
	stuck func(ctx context.Context, call string) error
	// permit forbids removals; nil: none.
	permit Permit
	forgot func() // unless nil
	// opened, unless nil, is closed when the agent's start is over.
	opened chan struct{}
}

func (d *drained) OpenedC() <-chan struct{} {
	if d.opened != nil {
		return d.opened
	}
	over := make(chan struct{})
	close(over)
	return over
}

func (d *drained) Gate() error { return errStarting }

func (d *drained) permits(a cleanup.Action) rule.Denial {
	if d.permit == nil {
		return rule.Denial{}
	}
	return d.permit(a)
}

func (d *drained) do(ctx context.Context, call string, uid types.UID) error {
	call += " " + string(uid)
	d.add(call)
	if d.stuck != nil {
		if err := d.stuck(ctx, call); err != nil {
			return err
		}
	}
	return d.fails[call]
}

// of returns the calls for a pod.
func (d *drained) of(pod string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, call := range d.list {
		if what, of, _ := strings.Cut(call, " "); of == pod {
			out = append(out, what)
		}
	}
	return strings.Join(out, " ")
}

func (d *drained) Snapshot() []podworkers.Explanation {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.known)
}

// reach puts a pod that the workers know into a state.
func (d *drained) reach(uid types.UID, state podworkers.State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.known {
		if d.known[i].UID == uid {
			d.known[i].State = state
		}
	}
}

func (d *drained) Stop(ctx context.Context, mode podworkers.StopMode) error {
	if mode == podworkers.Terminate {
		d.add("terminate")
	}
	if d.stops != nil {
		return d.stops(ctx)
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
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.listed), nil
}

func (d *drained) ReadNow(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	return &runtime.PodStatus{UID: uid}, d.do(ctx, "read", uid)
}

func (d *drained) KillPod(ctx context.Context, _ *v1.Pod, view *runtime.PodStatus, _ *int64) error {
	return d.do(ctx, "kill", view.UID)
}

func (d *drained) RemovePod(ctx context.Context, uid types.UID) error {
	err := d.do(ctx, "remove", uid)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && !d.stale {
		d.listed = slices.DeleteFunc(slices.Clone(d.listed), func(p *runtime.Pod) bool { return p.UID == uid })
	}
	return err
}

func (d *drained) RemovePodDir(ctx context.Context, uid types.UID) error {
	return d.do(ctx, "folder", uid)
}

func (d *drained) run(ctx context.Context) error {
	return Drain{
		Workers: d, Runtime: d, Reader: d, Pods: d, Start: d, Clock: clock.RealClock{}, Permit: d.permits,
		Kill: func(p *runtime.Pod) podworkers.UpdateOptions { return podworkers.UpdateOptions{RunningPod: p} },
		Forget: func(uid types.UID) {
			d.add("forget " + string(uid))
			if d.forgot != nil {
				d.forgot()
			}
		},
	}.Run(ctx)
}

func runningPod(uid types.UID) *runtime.Pod {
	return &runtime.Pod{UID: uid, Containers: []*runtime.Container{{Name: "c", State: runtime.Running}}}
}

// TestDrainRemovesWhatIsLeft of pods the workers know and of those only the runtime knows;
// what still runs is stopped first.
func TestDrainRemovesWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &drained{known: []podworkers.Explanation{{UID: "known"}}, listed: []*runtime.Pod{runningPod("unknown"), {UID: "dead"}}}
		if err := d.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for pod, want := range map[string]string{
			"known": "remove folder forget", "dead": "remove folder forget", "unknown": "read kill remove folder forget",
		} {
			if got := d.of(pod); got != want {
				t.Errorf("%s: calls %q, want %q", pod, got, want)
			}
		}
		if got := d.take(); len(got) != 14 || got[0] != "terminate" || got[1] != "list" || got[13] != "list" {
			t.Errorf("calls %v", got)
		}
	})
}

// TestDrainNamesThePodsThatAreLeft, and goes on with the others.
func TestDrainNamesThePodsThatAreLeft(t *testing.T) {
	broken := errors.New("broken")
	for call, what := range map[string]string{"read": "broken", "kill": "stop: broken", "remove": "remove from the runtime: broken", "folder": "remove its folder: broken"} {
		synctest.Test(t, func(t *testing.T) {
			d := &drained{listed: []*runtime.Pod{runningPod("a"), runningPod("b")}, fails: map[string]error{call + " a": broken}, stopErr: errors.New("in time")}
			err := d.run(t.Context())
			if !errors.Is(err, broken) || !strings.Contains(err.Error(), "(a): "+what) || !strings.Contains(err.Error(), "not every pod could be stopped: in time") {
				t.Errorf("%s: %v", call, err)
			}
			if got := d.take(); slices.Contains(got, "forget a") || !slices.Contains(got, "forget b") {
				t.Errorf("%s: calls %v", call, got)
			}
		})
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
