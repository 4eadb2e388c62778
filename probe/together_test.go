package probe_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
)

// 9.1: probes due within a millisecond are started together, none of them later than that; a probe
// that is alone starts on time.
func TestDueProbesStartTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const probes = 100
		f, pods := newFleet(probes, liveness(every(1)))
		var mu sync.Mutex
		begun := map[time.Duration]int{} // since the start, how many
		start, number := time.Now(), 0
		o := f.options()
		o.Rand = func() float64 { // due at every tenth of a millisecond, the last one later
			if number++; number == probes {
				return 0.5
			}
			return float64(number) / 10_000
		}
		o.Handler = func(probe.Target) probe.Handler {
			mu.Lock()
			defer mu.Unlock()
			begun[time.Since(start)]++
			return f
		}
		m, err := probe.New(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pods {
			m.AddPod(p)
		}
		runFor(t, m, 900*time.Millisecond)
		done := 0
		for _, at := range slices.Sorted(maps.Keys(begun)) {
			if at == 500*time.Millisecond {
				done++
				continue
			}
			first, last := time.Duration(done+1)*100*time.Microsecond, time.Duration(done+begun[at])*100*time.Microsecond
			if last > at || at-first > time.Millisecond {
				t.Errorf("at %v begin those that are due from %v to %v", at, first, last)
			}
			done += begun[at]
		}
		if begun[500*time.Millisecond] != 1 || done != probes || len(begun) > 13 {
			t.Errorf("%d runs at %d times: %v", done, len(begun), begun)
		}
	})
}

// watched counts how often pods are looked at, and shows another address each time.
type watched struct {
	fleet
	answer  error
	mu      sync.Mutex
	looks   int
	targets []string
}

func (w *watched) View(uid types.UID) (probe.View, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, ok := w.fleet.View(uid)
	w.looks++
	status := *v.Status
	status.PodIP = fmt.Sprintf("10.0.0.%d", w.looks)
	v.Status = &status
	return v, ok
}

func (w *watched) Probe(_ context.Context, t probe.Target) (probe.Outcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.targets = append(w.targets, t.PodIP)
	return probe.Outcome{Result: probe.Success}, w.answer
}

// 2.5, 4.1: a run takes what the look that led to it saw, and only an attempt
// after that, or an event, looks at the pod again.
func TestRunTakesWhatItsLookSaw(t *testing.T) {
	for _, c := range []struct {
		name    string
		answer  error
		looks   int
		targets []string
	}{
		{"success", nil, 3, []string{"10.0.0.2", "10.0.0.3"}},
		{"error", errors.New("broken"), 9, []string{"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.6", "10.0.0.7", "10.0.0.8"}},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f, pods := newFleet(1, liveness(every(1)))
			w := &watched{fleet: *f, answer: c.answer}
			m, err := probe.New(probe.Options{
				Pods: w, Handler: func(probe.Target) probe.Handler { return w }, Rand: func() float64 { return 0 },
			})
			if err != nil {
				t.Fatal(err)
			}
			m.AddPod(pods[0])
			runFor(t, m, 1500*time.Millisecond)
			w.mu.Lock()
			defer w.mu.Unlock()
			if diff := cmp.Diff(c.targets, w.targets); diff != "" || w.looks != c.looks {
				t.Errorf("%d looks, want %d; addresses (-want +got):\n%s", w.looks, c.looks, diff)
			}
		})
	}
}
