package recovery

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
)

// defaultStandIn is how long a source may stay silent after the start before its pods run as
// remembered.
const defaultStandIn = 10 * time.Second

// hearing is how long a source that is run again may take to answer, although it has been silent for long enough.
const hearing = time.Second

var errSilent = errors.New("the source has not answered since the start; its pods run as they were last desired")

// errClosed is not a problem of the source's health: closing the source was a decision.
var errClosed = errors.New("the source was closed before it named its pods; they run as they were last desired")

// source is a source for which the records stand in while it does not answer. Whatever the source
// says counts from the moment it is said. While the records stand in, the source is undecided, so
// that no pod it may want is taken for a leftover.
type source struct {
	syncloop.Source
	// name is asked for once: a source may need a lock for it that it holds while it delivers.
	name    string
	journal *Journal
	clock   clock.WithTickerAndDelayedExecution
	// standIn: the records may stand in at all.
	standIn bool
	// sourcesReady reports whether every source has been heard.
	sourcesReady func() bool

	turn chan struct{} // one delivery at a time
	// noted: what the source does not want has been recorded. deliveries counts the source's
	// deliveries. Both belong to the holder of turn.
	noted      bool
	deliveries int64
	mu         sync.Mutex
	// due is when the source has been silent for long enough; zero before its first run.
	due time.Time
	// answered: the source has spoken; stoodIn: its remembered pods were delivered;
	// closed: it will not speak again.
	answered, stoodIn, closed bool
	// lacks is what the source said of its last set: it is asked once per set, and may say something else of the next.
	lacks error
}

var (
	_ syncloop.Preceded       = (*source)(nil)
	_ syncloop.HealthReporter = (*source)(nil)
	_ syncloop.Undecided      = (*source)(nil)

	_ syncloop.ProblemReporter = (*source)(nil)
)

// Withholder is an optional ability of a source: to keep its remembered pods from running while it knows that they are not
// this node's, although it has not answered.
type Withholder interface {
	// Withheld returns why they must not run now, nil if they may. It must not block.
	Withheld() error
}

// Remembering wraps a source: the journal records which pods the source no longer wants and, with
// standIn, its remembered pods run if it does not answer. If the journal has wrapped others, too, it is not heard
// before the records are loaded. sourcesReady reports whether every source of the loop has been
// heard.
func (j *Journal) Remembering(s syncloop.Source, standIn bool, sourcesReady func() bool) syncloop.Source {
	j.sources.Add(1)
	return &source{Source: s, name: s.Name(), journal: j, clock: j.clock, standIn: standIn, sourcesReady: sourcesReady, turn: make(chan struct{}, 1)}
}

// Name returns that of the source.
func (s *source) Name() string { return s.name }

// Run runs the source, and delivers in its place if the source does not.
func (s *source) Run(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.standIn && !s.hasAnswered() {
		wait := s.patience()
		wg.Go(func() { s.replace(ctx, wait, deliver) })
		defer func() { s.replaceFailed(ctx, deliver) }()
	}
	ended := false // guarded by mu: no more waiting after this
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		ended = true
	}()
	err := s.Source.Run(ctx, func(own context.Context, pods []*v1.Pod) error {
		if err := s.awaitRecords(ctx, own); err != nil {
			return err
		}
		if err := s.take(own); err != nil {
			return err
		}
		defer func() { <-s.turn }()
		if ctx.Err() != nil {
			return context.Cause(ctx) // nothing is recorded about a set that does not count
		}
		pods = withoutNil(pods)
		admitted, complete, err := s.pass(own, pods, deliver)
		if err != nil {
			return err
		}
		s.note(admitted)
		if !complete {
			set := &incomplete{pods: copies(pods), filled: filled(pods, admitted), number: s.deliveries}
			s.mu.Lock()
			defer s.mu.Unlock()
			if !ended {
				wg.Go(func() { s.completeLater(ctx, set, deliver) })
			}
		}
		return nil
	})
	if err == nil && s.standIn {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.remember(ctx, deliver) // closed without an answer, it wants what it wanted before (IN9)
	}
	return err
}

// withoutNil returns a set without its nil pods, which the loop would leave out (M9).
func withoutNil(pods []*v1.Pod) []*v1.Pod {
	isNil := func(p *v1.Pod) bool { return p == nil }
	if !slices.ContainsFunc(pods, isNil) {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), isNil)
}

// pass passes on a set of the source, which has answered unless that fails, also by a panic. The caller has the turn.
func (s *source) pass(own context.Context, pods []*v1.Pod, deliver func(ctx context.Context, pods []*v1.Pod) error) (admitted []*v1.Pod, complete bool, err error) {
	lacks := s.undecided()
	s.mu.Lock()
	before := s.answered
	s.answered, s.lacks = true, lacks
	s.mu.Unlock()
	taken := before
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answered = taken
	}()
	s.journal.renewRetired(s.name, pods)
	s.deliveries++
	admitted, complete = s.admitted(pods)
	if err = deliver(own, admitted); err != nil {
		return nil, false, err
	}
	taken = true
	return admitted, complete, nil
}

// awaitRecords waits for the records, unless the source is alone: which UIDs others have is not known before (PS6).
func (s *source) awaitRecords(ctx, own context.Context) error {
	if timing.Ended(s.journal.loaded) || s.journal.sources.Load() == 1 {
		return nil
	}
	select {
	case <-s.journal.loaded:
		return nil
	case <-own.Done():
		return context.Cause(own)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// completeEvery is how often to ask again for what a delivery lacks.
const completeEvery = 10 * time.Second

// admitted fills in what an API server would have filled in.
func (s *source) admitted(pods []*v1.Pod) (admitted []*v1.Pod, complete bool) {
	if s.journal.options.Admitted == nil {
		return pods, true
	}
	return s.journal.options.Admitted(pods)
}

// incomplete is a set that lacked something when it was delivered.
type incomplete struct {
	pods []*v1.Pod
	// filled is the number of pods in which something was filled in; number is that of the delivery.
	filled int
	number int64
}

// filled counts the pods in which something was filled in: they are not the objects that were delivered.
func filled(delivered, admitted []*v1.Pod) (n int) {
	for i := range admitted {
		if admitted[i] != delivered[i] {
			n++
		}
	}
	return n
}

// copies returns copies of pods, which the source cannot change any more.
func copies(pods []*v1.Pod) []*v1.Pod {
	out := make([]*v1.Pod, len(pods))
	for i, pod := range pods {
		out[i] = pod.DeepCopy()
	}
	return out
}

// completeLater delivers a set again whenever more of it is known, until nothing is missing or the
// source has delivered another set.
func (s *source) completeLater(ctx context.Context, set *incomplete, deliver func(ctx context.Context, pods []*v1.Pod) error) {
	for more := true; more; {
		if timing.Sleep(ctx, s.clock, completeEvery) != nil || s.take(ctx) != nil {
			return
		}
		more = s.completeNow(ctx, set, deliver)
		<-s.turn
	}
}

// completeNow tries once and reports whether to try again. The caller has the turn.
func (s *source) completeNow(ctx context.Context, set *incomplete, deliver func(ctx context.Context, pods []*v1.Pod) error) (more bool) {
	if s.deliveries != set.number {
		return false
	}
	admitted, complete := s.admitted(set.pods)
	if n := filled(set.pods, admitted); n != set.filled {
		if deliver(ctx, admitted) != nil {
			return false // the loop ends
		}
		set.filled = n
	}
	return !complete
}

// note records what the source does not want, from the first set that names everything it wants; before the records are loaded,
// from the last. The caller has the turn.
func (s *source) note(pods []*v1.Pod) {
	if s.noted && timing.Ended(s.journal.loaded) {
		return
	}
	s.mu.Lock()
	decided := s.lacks == nil
	s.mu.Unlock()
	name, named := s.name, identities(pods)
	early := s.journal.beforeLoaded(name, func() {
		s.journal.renewRetired(name, named)
		if decided {
			s.journal.noteUnwanted(name, named, false)
		}
	})
	if !early && decided && !s.noted {
		s.journal.noteUnwanted(name, named, s.sourcesReady())
	}
	s.noted = decided
}

// identities returns as much of the pods as tells which lives they are: the source may change the pods later.
func identities(pods []*v1.Pod) []*v1.Pod {
	out := make([]*v1.Pod, len(pods))
	for i, p := range pods {
		out[i] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: p.UID, DeletionTimestamp: p.DeletionTimestamp}}
	}
	return out
}

// patience returns how long a run that begins now may stay silent. The runs of a source that fails share their time (SN5).
func (s *source) patience() time.Duration {
	all, now := cmp.Or(s.journal.options.StandInAfter, defaultStandIn), s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due.IsZero() {
		s.due = now.Add(all)
	}
	return max(s.due.Sub(now), min(hearing, all))
}

// replace delivers what is remembered if the source stays silent, as soon as it may run.
func (s *source) replace(ctx context.Context, wait time.Duration, deliver func(ctx context.Context, pods []*v1.Pod) error) {
	for timing.Sleep(ctx, s.clock, wait) == nil && !s.hasAnswered() {
		if wait = hearing; !s.withheld() {
			s.remember(ctx, deliver)
			return
		}
	}
}

func (s *source) withheld() bool {
	w, ok := s.Source.(Withholder)
	return ok && w.Withheld() != nil
}

// replaceFailed is replace for a source whose run has ended before it was given up: most runs of one that fails are
// shorter than that. It waits neither for records nor for another delivery: meanwhile the source would not be run again.
func (s *source) replaceFailed(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) {
	s.mu.Lock()
	early := s.clock.Now().Before(s.due)
	s.mu.Unlock()
	if early || ctx.Err() != nil || !timing.Ended(s.journal.loaded) {
		return
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
		s.rememberNow(ctx, deliver)
	default:
	}
}

// remember delivers what is remembered, once that is loaded, unless the source has answered or this
// was done before.
func (s *source) remember(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) {
	select {
	case <-s.journal.loaded:
	case <-ctx.Done():
		return
	}
	if s.take(ctx) != nil {
		return
	}
	defer func() { <-s.turn }()
	s.rememberNow(ctx, deliver)
}

// rememberNow is remember for the holder of turn.
func (s *source) rememberNow(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) {
	if s.withheld() {
		return
	}
	pods := lastDesired(s.journal.keeper.All(), s.name)
	s.mu.Lock()
	silent := !s.answered && !s.stoodIn && len(pods) > 0
	s.stoodIn = s.stoodIn || silent
	s.mu.Unlock()
	if silent && deliver(ctx, pods) != nil { // this run has ended meanwhile: the next one tries again
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stoodIn = false
	}
}

// take waits for the turn to deliver.
func (s *source) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *source) hasAnswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}

// Undecided returns what the source has said of its last set.
func (s *source) Undecided() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch silent := s.stoodIn && !s.answered; {
	case silent && s.closed:
		return errClosed
	case silent:
		return errSilent
	}
	return s.lacks
}

// undecided asks the source.
func (s *source) undecided() error {
	if u, ok := s.Source.(syncloop.Undecided); ok {
		return u.Undecided()
	}
	return nil
}

// Precedence returns that of the source.
func (s *source) Precedence() syncloop.Precedence {
	if p, ok := s.Source.(syncloop.Preceded); ok {
		return p.Precedence()
	}
	return syncloop.PrecedenceInProcess
}

// Health returns that of the source.
func (s *source) Health() syncloop.SourceHealth {
	var health syncloop.SourceHealth
	if h, ok := s.Source.(syncloop.HealthReporter); ok {
		health = h.Health()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stoodIn && !s.answered && !s.closed && health.LastError == nil {
		health.LastError = errSilent
	}
	return health
}

// Unreadable returns that of the source.
func (s *source) Unreadable() []problem.Problem {
	if r, ok := s.Source.(syncloop.ProblemReporter); ok {
		return r.Unreadable()
	}
	return nil
}

// lastDesired returns the pods that a source was last known to want.
func lastDesired(records []*checkpoint.Record, source string) []*v1.Pod {
	var pods []*v1.Pod
	for _, r := range records {
		if r.Source == source && r.Pod != nil && !r.Unwanted && !r.Retired && !hadToStop(r) {
			pods = append(pods, r.Pod.DeepCopy())
		}
	}
	return pods
}

// noteUnwanted records which pods a source does not name in its first answer after the start: they
// are never started from memory again. This is written at once, unless they are about to be
// stopped, because then their end is written too.
func (j *Journal) noteUnwanted(source string, named []*v1.Pod, stopping bool) {
	wants := map[types.UID]bool{}
	for _, p := range named {
		wants[p.UID] = true
	}
	for _, r := range j.keeper.All() {
		if r.Source != source || r.Unwanted || wants[r.UID] {
			continue
		}
		j.keeper.Update(r.UID, func(r *checkpoint.Record) checkpoint.Class {
			r.Unwanted = true
			if stopping {
				return checkpoint.Lazy
			}
			return checkpoint.Durable
		})
	}
}
