package eviction

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestNodeWaitsForAllPods: section 16: no pod is evicted for the node before every pod is known, for 30 s at most. The node
// has its condition at once.
func TestNodeWaitsForAllPods(t *testing.T) {
	for known, want := range map[time.Duration]string{0: "0s", 5500 * time.Millisecond: "6s", time.Hour: "30s"} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				n := &node{readings: reading(MemoryAvailable, 10), frees: 900, pods: []*v1.Pod{pod("a")}}
				n.complete = func() bool { return time.Since(begin) >= known }
				_, got := n.run(t, time.Minute, Policy{Thresholds: thresholds(t, Text{Hard: "memory.available<100"})})
				if !strings.Contains(got, "\n"+want+" kill a") || !strings.HasPrefix(got, "0s conditions changed") {
					t.Errorf("want an eviction after %s, happened:\n%s", want, got)
				}
			})
		})
	}
}
