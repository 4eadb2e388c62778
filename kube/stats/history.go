package stats

import "time"

// history is what one reading must remember for the next: rates span two of them, and no counter
// decreases. It holds only what the last reading had.
type history struct {
	counters map[string]*counter
	sums     map[string]*sum
	seen     map[string]bool
	// began is when the last reading began.
	began time.Time
}

// counter is a counter of one object. It never decreases.
type counter struct {
	value uint64
	// base is the value at the beginning of the interval for rate.
	base   uint64
	baseAt time.Time
	// older is the next base; it is taken at least window after base.
	older   uint64
	olderAt time.Time
	rate    *uint64
	// restart says that the clock was set since the last value: base and older have times of another clock.
	restart bool
}

// The interval for a rate: long enough that scrapes in quick succession do not make it jump, and no
// longer than needed.
const (
	minWindow = time.Second
	window    = 10 * time.Second
)

// sum is the CPU time of a pod without a cgroup of its own.
type sum struct {
	// gone is what ended containers used, of those that were seen.
	gone uint64
	last map[string]uint64
}

func newHistory() *history {
	return &history{counters: map[string]*counter{}, sums: map[string]*sum{}}
}

// begin begins a reading. What is not requested before end is forgotten. The runtime's times have no
// monotonic part, so if the clock was set, or the machine was suspended, intervals for rates begin again.
func (h *history) begin(now time.Time) {
	h.seen = map[string]bool{}
	if step := now.Round(0).Sub(h.began.Round(0)) - now.Sub(h.began); step.Abs() >= minWindow {
		for _, c := range h.counters {
			c.restart = true
		}
	}
	h.began = now
}

func (h *history) end() {
	for key := range h.counters {
		if !h.seen[key] {
			delete(h.counters, key)
		}
	}
	for key := range h.sums {
		if !h.seen[key] {
			delete(h.sums, key)
		}
	}
}

// rate takes the value of a counter of nanoseconds and returns it, or the previous one if that is
// larger, and the increase per second, nil if that is not known yet.
func (h *history) rate(key string, at time.Time, value uint64) (total uint64, perSecond *uint64) {
	h.seen[key] = true
	c := h.counters[key]
	if c == nil {
		h.counters[key] = &counter{value: value, base: value, baseAt: at, older: value, olderAt: at}
		return value, nil
	}
	c.value = max(c.value, value)
	if c.restart || at.Before(c.baseAt) {
		c.base, c.baseAt, c.older, c.olderAt, c.restart = c.value, at, c.value, at, false
	}
	if at.Sub(c.olderAt) >= window {
		c.base, c.baseAt = c.older, c.olderAt
		c.older, c.olderAt = c.value, at
	}
	if passed := at.Sub(c.baseAt); passed >= minWindow {
		c.rate = pointer(uint64(float64(c.value-c.base) / passed.Seconds()))
	}
	return c.value, c.rate
}

// add takes the counters of a pod's containers, by ID, and returns the total of running and ended
// ones. A running container without a value keeps its previous one.
func (h *history) add(pod string, running map[string]*uint64) (total uint64) {
	h.seen[pod] = true
	s := h.sums[pod]
	if s == nil {
		s = &sum{last: map[string]uint64{}}
		h.sums[pod] = s
	}
	for id, value := range s.last {
		if _, runs := running[id]; !runs {
			s.gone += value
			delete(s.last, id)
		}
	}
	total = s.gone
	for id, value := range running {
		if value != nil {
			s.last[id] = max(s.last[id], *value)
		}
		total += s.last[id]
	}
	return total
}
