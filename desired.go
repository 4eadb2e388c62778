package podwright

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
)

// standInAfter is how long a source may stay silent after the start before its
// pods run as they are remembered.
const standInAfter = 10 * time.Second

var errSilent = errors.New("the source has not answered since the start; its pods run as they were last desired")

// rememberedSource stands in for a source that does not answer. Whatever the
// source says, and as soon as it says it, counts instead; meanwhile the source is
// undecided, so that nobody takes a pod it may want for left over.
type rememberedSource struct {
	syncloop.Source
	journal *journal
	clock   clock.WithDelayedExecution
	// standIn: pods are remembered at all.
	standIn bool
	// loopReady reports whether all sources have been heard.
	loopReady func() bool

	turn chan struct{} // one delivery at a time
	mu   sync.Mutex
	// answered: the source has spoken; stoodIn: its remembered pods were delivered.
	answered, stoodIn bool
}

var (
	_ syncloop.Preceded       = (*rememberedSource)(nil)
	_ syncloop.HealthReporter = (*rememberedSource)(nil)
	_ syncloop.Undecided      = (*rememberedSource)(nil)
)

// Run runs the source, and delivers in its place if it does not.
func (s *rememberedSource) Run(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.standIn && !s.hasAnswered() {
		wg.Go(func() { s.replace(ctx, deliver) })
	}
	return s.Source.Run(ctx, func(own context.Context, pods []*v1.Pod) error {
		if err := s.take(own); err != nil {
			return err
		}
		defer func() { <-s.turn }()
		s.mu.Lock()
		first := !s.answered
		s.answered = true
		s.mu.Unlock()
		if err := deliver(own, pods); err != nil {
			s.mu.Lock()
			s.answered = s.answered && !first
			s.mu.Unlock()
			return err
		}
		if first {
			s.journal.unwanted(s.Name(), pods, s.loopReady())
		}
		return nil
	})
}

// replace delivers what is remembered if the source stays silent.
func (s *rememberedSource) replace(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) {
	timer := s.clock.NewTimer(standInAfter)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
		return
	}
	if s.take(ctx) != nil {
		return
	}
	defer func() { <-s.turn }()
	pods := s.journal.remembered(s.Name())
	s.mu.Lock()
	silent := !s.answered && len(pods) > 0
	s.stoodIn = silent
	s.mu.Unlock()
	if silent {
		_ = deliver(ctx, pods) // fails only when the engine ends
	}
}

// take takes the turn to deliver.
func (s *rememberedSource) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *rememberedSource) hasAnswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}

// Undecided is the source's own word once it has spoken.
func (s *rememberedSource) Undecided() error {
	s.mu.Lock()
	silent := s.stoodIn && !s.answered
	s.mu.Unlock()
	if silent {
		return errSilent
	}
	if u, ok := s.Source.(syncloop.Undecided); ok {
		return u.Undecided()
	}
	return nil
}

// Precedence is the source's.
func (s *rememberedSource) Precedence() syncloop.Precedence {
	if p, ok := s.Source.(syncloop.Preceded); ok {
		return p.Precedence()
	}
	return syncloop.PrecedenceInProcess
}

// Health is the source's.
func (s *rememberedSource) Health() syncloop.SourceHealth {
	var health syncloop.SourceHealth
	if h, ok := s.Source.(syncloop.HealthReporter); ok {
		health = h.Health()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stoodIn && !s.answered && health.LastError == nil {
		health.LastError = errSilent
	}
	return health
}

// remembered returns the pods that a source was last known to want.
func (j *journal) remembered(source string) []*v1.Pod {
	var pods []*v1.Pod
	for _, r := range j.keeper.All() {
		// One that was to be stopped has been taken back by its source, unless it
		// ended by itself or was evicted.
		stopped := r.Termination != nil && !r.Terminal() && !r.Termination.Evicted
		if r.Source == source && r.Pod != nil && !r.Unwanted && !stopped {
			pods = append(pods, r.Pod.DeepCopy())
		}
	}
	return pods
}

// unwanted notes which pods a source does not name in its first word after the
// start: they are never started from memory again. At once, unless they are about
// to be stopped anyway, which is written too.
func (j *journal) unwanted(source string, named []*v1.Pod, stopping bool) {
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
