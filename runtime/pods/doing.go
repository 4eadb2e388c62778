package pods

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// doing tracks what may take long of what the manager is doing for pods: stops and hooks.
// Calls that make and start something are in Manager.work, pulls in Manager.puller.
type doing struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	pods map[types.UID][]*activity
}

// activity is one stop or hook. It is guarded by doing.mu.
type activity struct {
	// what it is, such as "stopping container c", and since when.
	what  string
	since time.Time
	// limit is how long it may take, 0 if it has no limit; grace is true if the limit is a grace period.
	limit time.Duration
	grace bool
	// stage says how far it has come, empty if there is nothing to say.
	stage string
}

// begin notes that something is done for the pod until end is called.
func (d *doing) begin(uid types.UID, a *activity) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.since = d.clock.Now()
	d.pods[uid] = append(d.pods[uid], a)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		rest := slices.DeleteFunc(d.pods[uid], func(other *activity) bool { return other == a })
		if d.pods[uid] = rest; len(rest) == 0 {
			delete(d.pods, uid)
		}
	}
}

// at notes how far an activity has come.
func (d *doing) at(a *activity, stage string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.stage = stage
}

// of describes what is done for the pod.
func (d *doing) of(uid types.UID) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, a := range d.pods[uid] {
		out = append(out, a.describe(d.clock.Since(a.since)))
	}
	return out
}

// describe puts into words what has been going on for the time passed.
func (a *activity) describe(passed time.Duration) string {
	text := fmt.Sprintf("%s, %d s", a.what, passed/time.Second)
	if a.limit > 0 {
		text += fmt.Sprintf(" of %d s", a.limit/time.Second)
	}
	if a.grace {
		text += " grace"
	}
	if a.stage != "" {
		text += ", " + a.stage
	}
	return text
}

// Doing describes the stops and hooks that are under way for a pod, such as "stopping container c,
// 12 s of 30 s grace, its preStop hook runs", in the order in which they began. It does not block.
func (m *Manager) Doing(uid types.UID) []string { return m.doing.of(uid) }
