package eviction

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestWhatIsOnItsWayIsCounted: IN4: no pod is evicted for what stopping pods will soon free, as
// long as that can be expected; after that, one is.
func TestWhatIsOnItsWayIsCounted(t *testing.T) {
	const hour = 3600
	for _, test := range []struct {
		name   string
		policy Text
		signal Signal
		grace  int64
		uses   uint64
		// freed is when the pods have given back what they use, stopped when they have
		// stopped; 0: never.
		freed, stopped time.Duration
		// evicts is when the first pod is evicted; empty: none is in ten minutes.
		evicts string
	}{
		{"freed in time", Text{Hard: "nodefs.available<100"}, NodeFsAvailable, 30, 30, 40 * time.Second, 0, ""},
		{"freed a moment after they stopped", Text{Hard: "nodefs.available<100"}, NodeFsAvailable, 30, 30, 25 * time.Second, 19 * time.Second, ""},
		{"not enough", Text{Hard: "nodefs.available<100"}, NodeFsAvailable, 30, 20, 40 * time.Second, 0, "0s"},
		{"never freed", Text{Hard: "nodefs.available<100"}, NodeFsAvailable, 30, 30, 0, 0, "60s"},
		{"a hard limit does not wait for a long grace", Text{Hard: "memory.available<100"}, MemoryAvailable, hour, 30, 0, 0, "60s"},
		{"a soft limit does", Text{Soft: "memory.available<100", SoftGrace: "memory.available=15s"}, MemoryAvailable, 300, 30, 0, 0, "330s"},
		{"processes that have stopped use no memory", Text{Hard: "memory.available<100"}, MemoryAvailable, 30, 30, 0, 15 * time.Second, "20s"},
		{"what has stopped long ago does not go", Text{Hard: "nodefs.available<100"}, NodeFsAvailable, 30, 30, 0, 15 * time.Second, "30s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{readings: reading(test.signal, 10), usage: map[types.UID]Usage{}, frees: 900}
				for i := range 5 {
					n.pods = append(n.pods, pod(fmt.Sprint("good-", i)))
				}
				var leaving []*v1.Pod
				for i := range 3 {
					p := pod(fmt.Sprint("leaver-", i), withGrace(test.grace))
					leaving = append(leaving, p)
					n.usage[p.UID] = Usage{Memory: test.uses, Disk: test.uses}
				}
				n.leaving = leaving
				after := func(d time.Duration, f func()) {
					if d > 0 {
						n.at(d, f)
					}
				}
				after(test.stopped, func() { n.leaving = nil })
				after(test.freed, func() {
					n.leaving, n.usage = nil, map[types.UID]Usage{}
					n.give(3 * test.uses)
				})
				_, got := n.run(t, 10*time.Minute, Policy{Thresholds: thresholds(t, test.policy)})
				first, _, killed := strings.Cut(got, " kill ")
				if first = first[strings.LastIndex(first, "\n")+1:]; killed != (test.evicts != "") || killed && first != test.evicts {
					t.Errorf("want the first eviction after %q, happened:\n%s", test.evicts, got)
				}
			})
		})
	}
}

// TestPodThatIsBackFreesNothing: IN4: a pod that runs again frees nothing; a usage that shrinks
// slowly is waited for.
func TestPodThatIsBackFreesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod("web")
		n := &node{readings: reading(NodeFsAvailable, 10), leaving: []*v1.Pod{p}, usage: map[types.UID]Usage{p.UID: {Disk: 500}}, frees: 900}
		for i := range 12 {
			n.at(time.Duration(i)*10*time.Second-time.Second, func() {
				n.usage[p.UID] = Usage{Disk: uint64(500 - i)}
			})
		}
		n.at(115*time.Second, func() {
			n.leaving, n.pods = nil, []*v1.Pod{p}
		})
		_, got := n.run(t, 5*time.Minute, Policy{Thresholds: thresholds(t, Text{Hard: "nodefs.available<100"})})
		if !strings.Contains(got, "120s kill web") || strings.Count(got, " kill ") != 1 {
			t.Errorf("happened:\n%s", got)
		}
	})
}

// TestOneSlowKillCostsOnePod: IN4: while a pod that was evicted takes a minute to stop, no other one goes, also if the
// node has been low for long.
func TestOneSlowKillCostsOnePod(t *testing.T) {
	for _, begins := range []time.Duration{0, 3 * time.Minute} {
		t.Run(fmt.Sprint("pods come after ", begins), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{readings: reading(MemoryAvailable, 10), usage: map[types.UID]Usage{}}
				come := func() {
					n.mu.Lock()
					defer n.mu.Unlock()
					for i := range 20 {
						p := pod(fmt.Sprint("p", i))
						n.pods, n.usage[p.UID] = append(n.pods, p), Usage{Memory: 500}
					}
				}
				if begins == 0 {
					come()
				} else {
					time.AfterFunc(begins-time.Second, come)
				}
				n.kill = func(*v1.Pod, *int64) time.Duration { return time.Hour }
				_, got := n.run(t, begins+58*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "memory.available<100"})})
				if strings.Count(got, " kill ") != 1 {
					t.Errorf("happened in the minute in which the first pod stops:\n%s", got)
				}
			})
		})
	}
}

// withStubborn is a node that is short of memory for a soft limit of 200: its pod stubborn, which uses 500, takes an hour
// to stop in its own grace and so long once it is told to hurry.
func withStubborn(hurried time.Duration) *node {
	n := &node{
		readings: reading(MemoryAvailable, 150), pods: []*v1.Pod{pod("stubborn", withGrace(86400)), pod("good")},
		usage: map[types.UID]Usage{"stubborn": {Memory: 500}},
	}
	n.kill = func(_ *v1.Pod, grace *int64) time.Duration {
		if grace == nil {
			return time.Hour
		}
		return hurried
	}
	return n
}

// TestPodThatWasToldToHurryIsWaitedFor: IN4: what a pod uses that a soft limit evicts counts for another minute after a
// hard limit has shortened its grace.
func TestPodThatWasToldToHurryIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := withStubborn(45 * time.Second)
		n.at(145*time.Second, func() {
			n.readings[MemoryAvailable] = Observation{Available: 1, Capacity: 1000}
		})
		_, got := n.run(t, 195*time.Second, Policy{
			Thresholds: thresholds(t, Text{Hard: "memory.available<100", Soft: "memory.available<200", SoftGrace: "memory.available=30s"}),
		})
		if !strings.Contains(got, "150s kill stubborn grace 1") || strings.Contains(got, "kill good") {
			t.Errorf("happened:\n%s", got)
		}
	})
}

// TestPodsThatComeAndGoDoNotProtectTheOneThatFillsTheDisk: IN4: if others take what stopping pods free, those that
// stop later do not count; a disk that becomes emptier meanwhile is waited for. Space is reclaimed in any case.
func TestPodsThatComeAndGoDoNotProtectTheOneThatFillsTheDisk(t *testing.T) {
	for _, grows := range []uint64{0, 1} {
		t.Run(fmt.Sprint("each frees ", grows), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{readings: reading(NodeFsAvailable, 10), pods: []*v1.Pod{pod("hog")}, usage: map[types.UID]Usage{"hog": {Disk: 800}}, frees: 900}
				for i := range 40 { // a job ends every 30 s
					n.at(time.Duration(i)*30*time.Second, func() {
						p := pod(fmt.Sprint("job-", i))
						n.leaving, n.usage[p.UID] = []*v1.Pod{p}, Usage{Disk: 100}
						n.give(grows)
					})
				}
				<-time.After(time.Millisecond)
				_, got := n.run(t, 10*time.Minute, Policy{Thresholds: thresholds(t, Text{Hard: "nodefs.available<100"})})
				if strings.Contains(got, "kill hog") != (grows == 0) || !strings.Contains(got, "0s reclaim") {
					t.Errorf("happened:\n%s", got)
				}
			})
		})
	}
}

// TestPartlyMeasuredPodThatLeavesCounts: IN4: what is known of a pod with too many files for the time counts.
func TestPartlyMeasuredPodThatLeavesCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{readings: reading(NodeFsAvailable, 10), pods: []*v1.Pod{pod("innocent")}, leaving: []*v1.Pod{pod("leaver")}, frees: 900}
		n.uses = func(ctx context.Context, p *v1.Pod) (Usage, error) {
			if p.Name == "leaver" {
				<-ctx.Done()
				return Usage{Disk: 500}, ctx.Err()
			}
			return Usage{Disk: 1}, nil
		}
		_, got := n.run(t, 30*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "nodefs.available<100"})})
		if strings.Contains(got, " kill ") {
			t.Errorf("happened:\n%s", got)
		}
	})
}

// TestGrowingUsageIsNotWaitedFor: IN4: only a pod whose usage shrinks, in complete readings, is waited for longer than a minute.
func TestGrowingUsageIsNotWaitedFor(t *testing.T) {
	for _, partly := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{readings: reading(NodeFsAvailable, 10), pods: []*v1.Pod{pod("hog")}, leaving: []*v1.Pod{pod("leaver")}, frees: 900}
			n.uses = func(_ context.Context, p *v1.Pod) (Usage, error) {
				if partly && p.Name == "leaver" { // what is found in time varies
					return Usage{Disk: uint64(500 - time.Since(n.begin)/time.Second)}, errors.New("cut")
				}
				return Usage{Disk: uint64(500 + time.Since(n.begin)/time.Second)}, nil
			}
			_, got := n.run(t, 70*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "nodefs.available<100"})})
			if !strings.Contains(got, "60s kill hog") {
				t.Errorf("partly %v:\n%s", partly, got)
			}
		})
	}
}

// TestWhatIsFreedDuringTheReadingsCounts: IN4: it is missing in the first reading of the node, and no longer used.
func TestWhatIsFreedDuringTheReadingsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{readings: reading(MemoryAvailable, 10), pods: []*v1.Pod{pod("innocent")}, leaving: []*v1.Pod{pod("leaver")}}
		n.uses = func(_ context.Context, p *v1.Pod) (Usage, error) {
			if p.Name == "leaver" && time.Since(n.begin) < time.Second {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.give(500)
			}
			return Usage{}, nil
		}
		_, got := n.run(t, 5*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "memory.available<100"})})
		if strings.Contains(got, " kill ") {
			t.Errorf("happened:\n%s", got)
		}
	})
}

// TestPodThatCouldNotBeToldToHurryIsToldAgain: section 16: in the next pass.
func TestPodThatCouldNotBeToldToHurryIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := withStubborn(time.Second)
		refused := false
		n.refuses = func(_ *v1.Pod, grace *int64) error {
			if grace == nil || refused {
				return nil
			}
			refused = true
			return errors.New("busy")
		}
		n.at(65*time.Second, func() { n.readings[MemoryAvailable] = Observation{Available: 1, Capacity: 1000} })
		_, got := n.run(t, 2*time.Minute, Policy{
			Thresholds: thresholds(t, Text{Hard: "memory.available<100", Soft: "memory.available<200", SoftGrace: "memory.available=30s"}),
		})
		if !refused || !strings.Contains(got, "kill stubborn grace 1") || strings.Contains(got, "kill good") {
			t.Errorf("happened:\n%s", got)
		}
	})
}

// TestHurryingPodsHoldUpOnePassOnlySoLong: section 16: however many pods a soft limit evicts, a pass that tells them to
// stop at once looks at the node again soon.
func TestHurryingPodsHoldUpOnePassOnlySoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{kill: func(*v1.Pod, *int64) time.Duration { return time.Hour }}
		m, err := New(Options{Stats: n, Killer: n, Pods: func() []*v1.Pod { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			p := pod(fmt.Sprint("p", i))
			m.victims[p.UID] = victim{pod: p, soft: true}
		}
		begin := time.Now()
		first := m.hasten(t.Context(), func(victim) bool { return true })
		soft := 0
		for _, v := range m.victims {
			if v.soft {
				soft++
			}
		}
		if took := time.Since(begin); first == nil || took > hastenLimit+hastenWait || soft != 50-int(hastenLimit/hastenWait) {
			t.Errorf("took %v; %d pods have not been told", took, soft)
		}
	})
}
