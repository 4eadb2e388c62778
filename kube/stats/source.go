package stats

import (
	"context"
	"errors"
	"fmt"
	"time"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/internal/cgrouptree"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/cri"
)

// Source measures a node and its pods on request. Between scrapes it has no goroutine, except for looks at
// folders that hang because of a mount in them. Make one with [New]; it is safe for concurrent use.
type Source struct {
	options Options
	// turn is held by the goroutine that reads, which owns the fields below.
	turn chan struct{}

	runtime runtimeReader
	machine machine
	cgroups *hierarchy
	finder  *cgrouptree.Finder
	past    *history
	disk    disk
	// paths are the cgroups of containers and sandboxes by ID, empty for those without one.
	paths map[string]string
	// held are the limits of containers by ID.
	held map[string]limits
	last *reading
}

// New returns a source, or everything that is wrong with the options. It starts nothing.
func New(options Options) (*Source, error) {
	if err := options.complete(); err != nil {
		return nil, fmt.Errorf("statistics of the node: %w", err)
	}
	trees := cgrouptree.Examine(options.Cgroups)
	s := &Source{
		options: options, turn: make(chan struct{}, 1),
		runtime: runtimeReader{runtime: options.Runtime}, machine: machine{proc: options.Proc},
		cgroups: &hierarchy{Trees: trees}, finder: cgrouptree.NewFinder(trees.Of("memory"), options.Clock),
		past: newHistory(), disk: newDisk(options), paths: map[string]string{}, held: map[string]limits{},
	}
	s.runtime.lister, _ = options.Runtime.(cri.StatsLister)
	return s, nil
}

// parts are what a reading contains besides CPU and memory.
type parts uint8

const (
	withNetwork parts = 1 << iota
	withDisk
	withDetails
)

// reading is what was measured at one time. It is immutable.
type reading struct {
	at       time.Time
	has      parts
	node     stats.NodeStats
	capacity capacity
	devices  map[string]string // names of block devices by number
	pods     []pod
	// err says why the pods are not known.
	err error
}

// errBusy says that other scrapes took all the time.
var errBusy = errors.New("another scrape, which began earlier, did not end in time")

// read returns a reading with all the wanted parts: another scrape's if it is not too old,
// otherwise a new one.
func (s *Source) read(ctx context.Context, want parts) *reading {
	oldest := s.options.Clock.Now().Add(-s.options.MaxAge)
	limited, cancel := timing.WithTimeout(ctx, s.options.Clock, s.options.Timeout)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-limited.Done():
		return s.alone(want, fmt.Errorf("%w: %w", errBusy, limited.Err()))
	}
	if last := s.last; last != nil && last.has&want == want && last.at.After(oldest) && s.options.MaxAge > 0 {
		return last
	}
	r := s.measure(limited, want)
	if r.err != nil {
		s.options.Logger.V(1).Info("The pods could not be measured", "error", r.err.Error())
	}
	if r.err == nil { // a reading that failed or ran out of time is not reused
		s.last = r
	}
	return r
}

// alone returns a reading of the node without its pods and its disk, which may be what holds up the others, for a scrape without
// the turn. It uses none of the fields that the turn protects.
func (s *Source) alone(want parts, err error) *reading {
	r := &reading{at: s.options.Clock.Now(), has: want, err: err}
	m, past := machine{proc: s.options.Proc}, newHistory()
	past.begin(r.at)
	r.node, r.capacity = m.node(s.options.Node, "", want&(withNetwork|withDisk) != 0, r.at, past)
	return r
}

// measure makes a reading. The caller holds the turn.
func (s *Source) measure(ctx context.Context, want parts) *reading {
	r := &reading{at: s.options.Clock.Now(), has: want}
	s.past.begin(r.at)
	r.node, r.capacity = s.machine.node(s.options.Node, s.options.RootDir, want&(withNetwork|withDisk) != 0, r.at, s.past)
	if want&withDetails != 0 {
		r.devices = s.machine.devices()
	}
	if s.options.Runtime == nil {
		s.past.end()
		return r
	}
	found, err := s.runtime.read(ctx, r.at)
	if err != nil {
		r.err = fmt.Errorf("read the container runtime: %w", err)
		return r // what is remembered stays for the next reading
	}
	s.locate(found)
	r.pods = s.assemble(ctx, found, want, r.at)
	if want&withDisk != 0 && s.options.Images != nil {
		r.node.Runtime = runtimeFs(ctx, s.options.Images, r.at)
	}
	if err := ctx.Err(); err != nil {
		r.err = fmt.Errorf("measure the pods: %w", err)
		return r
	}
	s.past.end()
	return r
}

// locate finds the cgroups of new containers and sandboxes, and forgets those that are gone.
func (s *Source) locate(found *found) {
	unknown, present := map[string]bool{}, map[string]bool{}
	note := func(id string) {
		present[id] = true
		if _, known := s.paths[id]; !known {
			unknown[id] = true
		}
	}
	for _, c := range found.containers {
		note(c.GetId())
	}
	for _, sandbox := range found.sandboxes {
		note(sandbox.GetId())
	}
	for id := range s.paths {
		if !present[id] {
			delete(s.paths, id)
			delete(s.held, id)
		}
	}
	paths, complete := s.finder.Find(unknown, present)
	for id := range unknown {
		if path := paths[id]; path != "" || complete {
			s.paths[id] = path
		}
	}
}
