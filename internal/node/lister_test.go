package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/runtime"
)

// unlisted are pods that lists lack.
type unlisted []*runtime.Pod

func (u unlisted) AddHidden(listed []*runtime.Pod) []*runtime.Pod { return append(listed, u...) }

// TestListerAddsWhatListsLack, and nothing to a list that has failed.
func TestListerAddsWhatListsLack(t *testing.T) {
	d := &drained{listed: []*runtime.Pod{runningPod("a")}}
	lister := Lister{Runtime: d, Hidden: unlisted{runningPod("b")}}
	if pods, err := lister.ListPods(t.Context()); err != nil || len(pods) != 2 {
		t.Errorf("%v, %v", pods, err)
	}
	d.listErr = errors.New("away")
	if pods, err := lister.ListPods(t.Context()); !errors.Is(err, d.listErr) || pods != nil {
		t.Errorf("%v, %v", pods, err)
	}
}

// TestDrainWaitsForTheStart: what is known is stopped at once. What lists lack is known once the agent's start is over: the
// drain waits for that for a minute, or until its context ends, and otherwise says what is missing.
func TestDrainWaitsForTheStart(t *testing.T) {
	for name, test := range map[string]struct {
		opens, until, want time.Duration
		err                error
	}{
		"over after 50 s": {opens: 50 * time.Second, until: time.Hour, want: 50 * time.Second},
		"never over":      {opens: time.Hour, until: time.Hour, want: drainStartLimit, err: errStarting},
		"context ends":    {opens: time.Hour, until: 20 * time.Second, want: 20 * time.Second, err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				d := &drained{listed: []*runtime.Pod{runningPod("listed")}, opened: make(chan struct{})}
				opening := time.AfterFunc(test.opens, func() {
					d.mu.Lock()
					defer d.mu.Unlock()
					d.listed = append(d.listed, runningPod("hidden"))
					close(d.opened)
				})
				defer opening.Stop()
				listed := time.Hour
				d.forgot = func() {
					d.mu.Lock()
					defer d.mu.Unlock()
					listed = min(listed, time.Since(began))
				}
				ctx, cancel := context.WithTimeout(t.Context(), test.until)
				defer cancel()
				err := d.run(ctx)
				if took := time.Since(began); took != test.want || !errors.Is(err, test.err) || listed != 0 {
					t.Errorf("%v after %v, want %v after %v; the listed pod is gone after %v", err, took, test.err, test.want, listed)
				}
				if err != nil && !strings.Contains(err.Error(), errStarting.Error()) {
					t.Errorf("error %q does not say what is missing", err)
				}
				if got, over := d.of("hidden"), test.err == nil; over != (got == "read kill remove folder forget") {
					t.Errorf("hidden: %q", got)
				}
			})
		})
	}
}

// TestDrainTriesAgain what has failed soon, whether or not workers were still stopping.
func TestDrainTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &drained{listed: []*runtime.Pod{runningPod("web"), runningPod("bad")}}
		calls := map[string]int{}
		d.stuck = func(_ context.Context, call string) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			if calls[call]++; call == "kill bad" || call == "kill web" && calls[call] < 3 {
				return errors.New("no answer")
			}
			return nil
		}
		began := time.Now()
		err := d.run(t.Context())
		if took := time.Since(began); err == nil || strings.Contains(err.Error(), "web") || !strings.Contains(err.Error(), "(bad): stop: no answer") || took != drainRetries*drainPeriod {
			t.Errorf("%v after %v", err, took)
		}
	})
}
