package eviction

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// TestLongMeasurementIsNotRepeated: FD2. A pod whose folders take minutes to measure is measured once at a time, holds up
// no other pod, and is evicted when the measurement is over; a hook that panics ends only its own measurement.
func TestLongMeasurementIsNotRepeated(t *testing.T) {
	for _, localOnly := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			full := files(t, map[string]string{"data": strings.Repeat("x", 64<<10)})
			n := &node{begin: time.Now(), readings: reading(MemoryAvailable, 900), pods: []*v1.Pod{pod("slow"), pod("odd"), pod("quick")}}
			asked := map[string]int{}
			m, err := New(Options{
				Stats: n, Killer: n, Recorder: n, LocalOnly: localOnly, Policy: Policy{Thresholds: []Threshold{}}, Pods: func() []*v1.Pod { n.mu.Lock(); defer n.mu.Unlock(); return slices.Clone(n.pods) },
				Volumes: func(p *v1.Pod) []Volume {
					n.mu.Lock()
					asked[p.Name]++
					n.mu.Unlock()
					switch p.Name {
					case "slow":
						<-time.After(150 * time.Second)
					case "odd":
						panic("no volumes")
					}
					return []Volume{{Name: "cache", Path: full, Limit: 10 << 10}}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 170*time.Second)
			defer cancel()
			if err := m.Run(ctx); err != nil {
				t.Error(err)
			}
			got := strings.Join(n.log, "\n")
			if !strings.Contains(got, "0s kill quick") || !strings.Contains(got, "s kill slow") || strings.Count(got, " kill ") != 2 {
				t.Errorf("local only %v:\n%s", localOnly, got)
			}
			if asked["slow"] != 1 || asked["odd"] < 3 || asked["quick"] != 1 {
				t.Errorf("measured %v", asked)
			}
		})
	}
}

// TestOldFindingsDoNotCount: FD2. A pod that is gone, or whose measurement is a minute old, is not evicted.
func TestOldFindingsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocals(Options{Clock: clock.RealClock{}})
		for _, uid := range []types.UID{"old", "gone", "a", "b"} {
			l.note(finding{uid: uid, text: "full", at: time.Now()})
			if uid == "old" {
				<-time.After(localPeriod)
			}
		}
		pods := []*v1.Pod{pod("b"), pod("a"), pod("old")}
		var names []string
		for pod, _ := l.take(pods); pod != nil; pod, _ = l.take(pods) {
			names = append(names, pod.Name)
		}
		if !slices.Equal(names, []string{"a", "b"}) {
			t.Errorf("took %v", names)
		}
	})
}
