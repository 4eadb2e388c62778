package eviction

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
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
		l := newLocals(Options{Clock: clock.RealClock{}}, nil)
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

// TestNextLifeIsMeasuredAgain: FD2. What was measured of a static pod does not count against its next life, which begins with
// empty volumes.
func TestNextLifeIsMeasuredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := files(t, map[string]string{"data": strings.Repeat("x", 64<<10)})
		life := func() *v1.Pod {
			p, now := pod("static"), metav1.Now()
			p.Status.StartTime = &now
			return p
		}
		n := &node{readings: reading(MemoryAvailable, 10), frees: 900, pods: []*v1.Pod{life()}}
		n.at(15*time.Second, func() { n.pods = append(n.pods, life()) })
		n.limited = func(*v1.Pod) []Volume {
			<-time.After(30 * time.Second) // a long walk
			return []Volume{{Name: "cache", Path: full, Limit: 10 << 10}}
		}
		_, got := n.run(t, 55*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "memory.available<100"})})
		if strings.Count(got, "kill static") != 1 {
			t.Errorf("happened:\n%s", got)
		}
	})
}

// TestSlowMeasurementsDoNotStopTheRound: FD2. However many pods take long to measure, the others' limits hold.
func TestSlowMeasurementsDoNotStopTheRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := files(t, map[string]string{"data": strings.Repeat("x", 64<<10)})
		n := &node{localOnly: true}
		for i := range 2 * maxMeasured {
			n.pods = append(n.pods, pod(fmt.Sprint("slow", i)))
		}
		n.pods = append(n.pods, pod("over"))
		var begun atomic.Int64
		n.limited = func(p *v1.Pod) []Volume {
			if p.Name != "over" {
				if at := time.Since(n.begin); begun.Add(1) > maxMeasured && at < turnLimit {
					t.Errorf("%d measurements have begun after %v", begun.Load(), at)
				}
				<-time.After(walkLimit)
				return nil
			}
			return []Volume{{Name: "cache", Path: full, Limit: 10 << 10}}
		}
		_, got := n.run(t, time.Minute, Policy{})
		if !strings.Contains(got, "kill over") {
			t.Errorf("happened:\n%s", got)
		}
		<-time.After(walkLimit) // Run waits for them only so long
	})
}

// TestMeasurementPausesAsLongAsItTook: FD2. Folders that take longer to measure than a period keep no CPU busy all the time.
func TestMeasurementPausesAsLongAsItTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 3 * localPeriod
		n := &node{localOnly: true, pods: []*v1.Pod{pod("large")}}
		begins := 0
		n.limited = func(*v1.Pod) []Volume { begins++; <-time.After(takes); return nil }
		n.run(t, 10*takes+localPeriod, Policy{})
		<-time.After(takes)
		if begins < 4 || begins > 6 {
			t.Errorf("measured %d times in %v", begins, 10*takes)
		}
	})
}

// TestMeasurementIsLimited: FD2. A pod's storage is asked for, and its folders are walked, for a limited time and in turn; what
// could not be measured is told.
func TestMeasurementIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := files(t, map[string]string{"data": strings.Repeat("x", 64<<10)})
		var text []string
		logger := funcr.New(func(_, args string) { text = append(text, args) }, funcr.Options{})
		begin := time.Now()
		l := newLocals(Options{
			Clock: clock.RealClock{}, Logger: logger,
			Volumes: func(*v1.Pod) []Volume { return []Volume{{Name: "cache", Path: dir, Limit: 1}} },
			Storage: func(ctx context.Context, _ *v1.Pod) (Storage, error) {
				<-ctx.Done()
				if took := time.Since(begin); took != storageWait {
					t.Errorf("asked for %v", took)
				}
				return Storage{Folders: []string{dir}}, ctx.Err()
			},
		}, foreign.New(clock.RealClock{}))
		p := pod("p")
		p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1")}}}}
		if _, err := l.walks.take(t.Context()); err != nil { // a walk that is stuck
			t.Fatal(err)
		}
		if signal, _ := l.measure(t.Context(), p); signal != volumeLimit || time.Since(begin) != turnLimit {
			t.Errorf("found %q after %v", signal, time.Since(begin))
		}
		begin, l.options.Volumes = time.Now(), nil
		if signal, _ := l.measure(t.Context(), p); signal != podLimit || len(text) != 1 {
			t.Errorf("found %q, logged %q", signal, text)
		}
		begin, text, l.walks.clock = time.Now(), nil, nil
		l.options.Storage = func(context.Context, *v1.Pod) (Storage, error) { return Storage{Folders: []string{dir}}, nil }
		l.walks.taken <- struct{}{} // never given back
		if signal, _ := l.measure(t.Context(), p); signal != "" || time.Since(begin) != walkLimit || len(text) != 1 || !strings.Contains(text[0], "Not all") {
			t.Errorf("found %q after %v, logged %q", signal, time.Since(begin), text)
		}
	})
}
