package syncloop

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

// TestEnqueue: newer work of a pod replaces older work that waits. The loop keeps at most a kill
// and the setup after it, so the number of pods bounds the work that waits (B2).
func TestEnqueue(t *testing.T) {
	tests := []struct{ arrives, want string }{
		{"create", "create/0"},
		{"create sync", "create/0 v1"},
		{"sync update", "update/0 v1"},
		{"update create sync", "create/0 v2"},
		{"create kill", "kill/1 v1"},
		{"kill kill", "kill/1 v1"},
		{"kill create", "kill/0 v0, create/1 v1"},
		{"kill create update", "kill/0 v0, create/1 v2"},
		{"kill create kill", "kill/2 v2"},
		{"create kill create sync", "kill/1 v1, create/2 v3"},
	}
	kinds := map[string]WorkKind{"sync": WorkSync, "update": WorkUpdate, "create": WorkCreate, "kill": WorkKill}
	for _, test := range tests {
		t.Run(test.arrives, func(t *testing.T) {
			var queue []Work
			for i, kind := range strings.Fields(test.arrives) {
				before := append([]Work(nil), queue...)
				next := enqueue(queue, Work{
					Kind: kinds[kind], Pod: newPod("a", "a", image("v"+string(rune('0'+i)))),
					StartTime: start.Add(time.Duration(i) * time.Second),
				})
				if diff := cmp.Diff(before, queue); diff != "" {
					t.Fatalf("the queue it was given changed:\n%s", diff)
				}
				queue = next
			}
			var got []string
			for _, w := range queue {
				line := w.Kind.String() + "/" + string(rune('0'+int(w.StartTime.Sub(start).Seconds())))
				if len(strings.Fields(test.arrives)) > 1 {
					line += " " + w.Pod.Spec.Containers[0].Image
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(test.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("kind/oldest start and newest pod (-want +got):\n%s", diff)
			}
		})
	}
}

// TestIsSetup: work that ends a pod is never held back (B2).
func TestIsSetup(t *testing.T) {
	for name, test := range map[string]struct {
		work Work
		want bool
	}{
		"create":          {Work{Kind: WorkCreate, Pod: newPod("a", "a")}, true},
		"sync":            {Work{Kind: WorkSync, Pod: newPod("a", "a", phase(v1.PodRunning))}, true},
		"kill":            {Work{Kind: WorkKill, Pod: newPod("a", "a")}, false},
		"deleted":         {Work{Kind: WorkUpdate, Pod: newPod("a", "a", deleted)}, false},
		"ended well":      {Work{Kind: WorkCreate, Pod: newPod("a", "a", phase(v1.PodSucceeded))}, false},
		"ended in errors": {Work{Kind: WorkCreate, Pod: newPod("a", "a", phase(v1.PodFailed))}, false},
	} {
		if got := isSetup(test.work); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
