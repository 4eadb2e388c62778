package syncloop

import "time"

// lane is one of the queues the loop takes from, most urgent first (B3).
type lane uint8

const (
	// laneUrgent: pods that are removed or deleted. They release what others wait for.
	laneUrgent lane = iota
	// laneChange: pods that are new or changed.
	laneChange
	// laneSync: pods to look at.
	laneSync
	lanes
)

// Fairness among lanes.
const (
	// chunk is how many pods one iteration handles at most.
	chunk = 50
	// longIteration ends an iteration early (B5, B11): what is waited for by others,
	// such as housekeeping, must not wait longer.
	longIteration = 2 * time.Millisecond
	// starvation is how many pods of other lanes may be handled while one waits.
	starvation = 100
)

// turns decides whose turn it is. The zero value is ready to use.
type turns struct {
	// passed counts, per lane, the pods handled in other lanes while it waited.
	passed [lanes]int
}

// next returns the lane whose turn it is: one that has waited too long, otherwise the
// most urgent. It is false if none waits.
func (t *turns) next(waits [lanes]bool) (lane, bool) {
	for l := range lanes {
		if waits[l] && t.passed[l] >= starvation {
			return l, true
		}
	}
	for l := range lanes {
		if waits[l] {
			return l, true
		}
	}
	t.passed = [lanes]int{}
	return 0, false
}

// took notes that n pods of a lane were handled while the others waited or not.
func (t *turns) took(l lane, n int, waits [lanes]bool) {
	for other := range lanes {
		if other == l || !waits[other] {
			t.passed[other] = 0
			continue
		}
		t.passed[other] += n
	}
}
