package eviction

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestReclaimIsRepeatedWhilePodsLeave: section 16: while pods that are being stopped are waited for, space goes on being
// reclaimed. What has become unused since the first reclaim is removed before a pod is evicted.
func TestReclaimIsRepeatedWhilePodsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{readings: reading(NodeFsAvailable, 10), pods: []*v1.Pod{pod("good")}, usage: map[types.UID]Usage{}, frees: 900}
		slow := pod("slow", withGrace(30))
		n.leaving = []*v1.Pod{slow}
		n.usage[slow.UID] = Usage{Disk: 300}
		n.at(40*time.Second, func() { n.reclaims = 500 }) // an image is not used any more
		_, got := n.run(t, 5*time.Minute, Policy{Thresholds: thresholds(t, Text{Hard: "nodefs.available<100"})})
		if strings.Contains(got, "kill") {
			t.Errorf("a pod is evicted, although a reclaim would have been enough:\n%s", got)
		}
	})
}
