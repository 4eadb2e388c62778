package probe

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe/internal/decide"
)

// stage is where a worker is (2.2); a worker that is held waits.
type stage uint8

const (
	looking stage = iota // in no heap: it is being looked at
	waiting              // in the heap of due times
	queued               // in the queue of its lane, or parked at its pod
	running              // in the heap of due times, for its timeout
	ended
)

// wish is what a busy worker was asked to do next. Wishes coalesce (2.5).
type wish uint8

const (
	nothing wish = iota
	another      // a run, unless the present one succeeds (2.6)
	afresh       // a look: what the pod shows has changed
)

// worker is one probe: of one kind, container and pod. The manager's lock guards it. There may be
// ten thousand of them, so it is kept small.
type worker struct {
	pod   *podEntry
	name  string // of the container
	probe *v1.Probe
	kind  Kind
	stage stage
	// again is what was asked for while the worker was busy.
	again wish
	// ready: the container has been ready once.
	ready bool

	timing Timing
	// next is what a container that replaces the present one is probed with (1.4); nil: the same.
	next  *change
	state decide.State
	why   string // it is not executed

	// Times since the manager's epoch: due is when the worker is looked at, grid the next point of
	// its grid, earliest the end of its first wait (2.3).
	due, grid, earliest time.Duration
	place               int // in the heap it is in
	number              uint64

	view View // what the look showed, while it is queued
	run  *run // while it runs
	// lost is the last run that was given up and has not returned (9.5); hung counts those of earlier containers, too.
	lost *run
	hung int

	// output of the last run, cut, and when the run was; failed: it could not be executed.
	output   string
	executed time.Duration
	failed   bool
	// remembered is when the record was last written, 0 if never.
	remembered time.Duration
	complaint  *complaint
	counts     [3]uint32 // by Result: unknown, successful, failed
}

// change is a probe as its pod has it by now.
type change struct {
	probe  *v1.Probe
	timing Timing
}

// latest returns the probe as the last call of AddPod has shown it.
func (w *worker) latest() *v1.Probe {
	if w.next != nil {
		return w.next.probe
	}
	return w.probe
}

// podEntry is a pod with workers.
type podEntry struct {
	uid             types.UID
	namespace, name string
	workers         []*worker
	// running counts the probes in progress; parked holds queued ones that wait until fewer run.
	running int
	parked  []*worker
}

// find returns the pod's worker for a container and kind, or nil.
func (p *podEntry) find(container string, kind Kind) *worker {
	for _, w := range p.workers {
		if w.name == container && w.kind == kind {
			return w
		}
	}
	return nil
}

// advance uses up the grid points that have come (2.4): a look now uses every point up to now.
func (w *worker) advance(now time.Duration) {
	if w.grid > now {
		return
	}
	w.grid += w.timing.Period * ((now-w.grid)/w.timing.Period + 1)
}

// restart begins a new grid at now (2.5).
func (w *worker) restart(now time.Duration) { w.grid = now + w.timing.Period }
