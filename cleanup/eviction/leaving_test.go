package eviction

import (
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
						time.AfterFunc(d, func() { n.mu.Lock(); defer n.mu.Unlock(); f() })
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
			time.AfterFunc(time.Duration(i)*10*time.Second-time.Second, func() {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.usage[p.UID] = Usage{Disk: uint64(500 - i)}
			})
		}
		time.AfterFunc(115*time.Second, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.leaving, n.pods = nil, []*v1.Pod{p}
		})
		_, got := n.run(t, 5*time.Minute, Policy{Thresholds: thresholds(t, Text{Hard: "nodefs.available<100"})})
		if !strings.Contains(got, "120s kill web") || strings.Count(got, " kill ") != 1 {
			t.Errorf("happened:\n%s", got)
		}
	})
}
