package sourcetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/flawtest"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
	"github.com/podwright/podwright/syncloop/source/sourcetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// toy is a source of pods in memory, with one flaw or none.
type toy struct {
	flaw       string
	change     chan struct{}
	delivering atomic.Bool

	mu     sync.Mutex
	pods   []*v1.Pod
	told   map[types.UID]bool
	looks  int
	broken bool
	met    chan struct{} // closed when a look finds the origin as it is now
	health syncloop.SourceHealth
}

func newToy(flaw string) *toy {
	return &toy{flaw: flaw, change: make(chan struct{}, 1), told: map[types.UID]bool{}, met: make(chan struct{})}
}

func (s *toy) Name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flaw == "name changes" {
		return fmt.Sprint("toy-", s.looks)
	}
	return "toy"
}

func (s *toy) Health() syncloop.SourceHealth {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health
}

func (s *toy) Run(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error {
	if s.flaw == "delivers after its end" {
		defer func() { go func() { <-time.After(time.Millisecond); _ = deliver(context.WithoutCancel(ctx), nil) }() }()
	}
	if s.flaw == "begins with nothing" {
		if err := deliver(ctx, nil); err != nil {
			return err
		}
	}
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	if broken && s.flaw == "nothing at a broken start" {
		if err := deliver(ctx, nil); err != nil {
			return err
		}
	}
	for {
		if err := s.look(ctx, deliver); err != nil && ctx.Err() != nil {
			return err
		}
		done := ctx.Done()
		if s.flaw == "deaf" {
			done = nil
		}
		select {
		case <-s.change:
		case <-done:
			return ctx.Err()
		}
	}
}

func (s *toy) look(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error {
	s.mu.Lock()
	set := s.read()
	s.looks++
	close(s.met)
	s.met = make(chan struct{})
	s.mu.Unlock()
	if set == nil {
		return nil
	}
	s.delivering.Store(true)
	defer s.delivering.Store(false)
	err := deliver(ctx, set)
	for err != nil && s.flaw == "tries forever" {
		<-time.After(time.Millisecond)
		err = deliver(ctx, set)
	}
	return err
}

// read returns the set to deliver, nil for none.
func (s *toy) read() []*v1.Pod {
	if s.broken {
		if s.flaw != "hides failures" {
			s.health.LastError, s.health.LastErrorAt = errors.New("broken"), time.Now()
		}
		if s.flaw == "nothing for an error" {
			return []*v1.Pod{}
		}
		return nil
	}
	s.health.LastError, s.health.LastSuccess = nil, time.Now()
	set := []*v1.Pod{}
	for _, p := range s.pods {
		p = p.DeepCopy()
		switch s.flaw {
		case "new UIDs":
			p.UID = types.UID(fmt.Sprint(p.UID, "-", s.looks))
		case "no namespace":
			p.Namespace = ""
		case "only what is new":
			if s.told[p.UID] {
				continue
			}
		case "first version":
			p.Spec.Containers[0].Image = "example.com/app:1"
		case "twice":
			set = append(set, p)
		}
		s.told[p.UID] = true
		set = append(set, p)
	}
	if s.flaw == "silent about nothing" && len(set) == 0 {
		return nil
	}
	return set
}

func (s *toy) Set(ctx context.Context, pods ...*v1.Pod) error {
	return s.edit(ctx, false, func() {
		if s.flaw == "never forgets" && len(pods) < len(s.pods) {
			return
		}
		s.pods = pods
	})
}

func (s *toy) Break(ctx context.Context, broken bool) error {
	return s.edit(ctx, true, func() { s.broken = broken })
}

// edit changes the origin and, if wait is set, waits until the source has looked at the change.
func (s *toy) edit(ctx context.Context, wait bool, change func()) error {
	if s.flaw == "deaf while it delivers" && s.delivering.Load() {
		return nil
	}
	s.mu.Lock()
	change()
	met := s.met
	s.mu.Unlock()
	select {
	case s.change <- struct{}{}:
	default:
	}
	if !wait {
		return nil
	}
	select {
	case <-met:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func factory(flaw string) sourcetest.Factory {
	return func(*testing.T) sourcetest.Subject {
		s := newToy(flaw)
		return sourcetest.Subject{Source: s, Set: s.Set, Break: s.Break}
	}
}

// caught maps flaws that sources have, or may well have, to the case that must notice them.
func caught() map[string]string {
	return map[string]string{
		"name changes":              "M1 the name stays and is not empty",
		"new UIDs":                  "SRC1 each pod has a name and the UID it was given",
		"no namespace":              "SRC1 each pod has a name and the UID it was given",
		"only what is new":          "SRC1 each set is the full one",
		"silent about nothing":      "SRC3 no pods are an empty set",
		"never forgets":             "SRC3 a pod that goes is left out",
		"first version":             "M6 a pod that changes is delivered again",
		"twice":                     "M4 a pod is in a set once",
		"nothing for an error":      "SRC2 what cannot be read keeps its pods",
		"begins with nothing":       "A3 a later run tells the whole set",
		"deaf while it delivers":    "M2 nothing is lost on a slow loop",
		"tries forever":             "IN9 the run ends while a delivery waits",
		"nothing at a broken start": "SRC4 a run that begins unreadable removes nothing",
		"hides failures":            "SRC4 failures are told and forgotten",
		"deaf":                      "IN9 the run ends with its context",
		"delivers after its end":    "IN9 the run ends with its context",
	}
}

// A sound source passes every case, so a case that fails fails because of the flaw.
func TestSoundSourcePasses(t *testing.T) {
	for _, c := range sourcetest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, factory("")) })
		})
	}
}

// kit is the kit under test, checked with flaws.
func kit() flawtest.Kit {
	k := flawtest.Kit{Caught: caught()}
	for _, c := range sourcetest.Cases() {
		k.Cases = append(k.Cases, flawtest.Case{Name: c.Name, Run: func(t *testing.T, flaw string) {
			c.Run(t, func(t *testing.T) sourcetest.Subject {
				s := factory(flaw)(t)
				s.Timeout = 20 * time.Second // most flaws show as something that never comes
				s.Clock = flawtest.Hurried{By: 50}
				return s
			})
		}})
	}
	return k
}

func TestFlawed(t *testing.T)         { kit().Flawed(t) }
func TestCasesHaveFlaws(t *testing.T) { kit().CasesHaveFlaws(t) }
func TestFlawsAreCaught(t *testing.T) { kit().FlawsAreCaught(t) }

// mySource is the subject for a source of your own.
func mySource(*testing.T) sourcetest.Subject {
	s := source.NewChannel(source.ChannelOptions{NodeName: "n1"}) // your source here
	return sourcetest.Subject{
		Source: s,
		Set:    func(ctx context.Context, pods ...*v1.Pod) error { return s.Set(ctx, pods) },
	}
}

// The kit of a source is one test.
func ExampleRun() {
	_ = func(t *testing.T) { sourcetest.Run(t, mySource) } // TestMySource
	fmt.Println("go test -run TestMySource")
	// Output: go test -run TestMySource
}

// In a bubble, waits take no real time.
func ExampleCases_virtualTime() {
	_ = func(t *testing.T) { // TestMySource
		for _, c := range sourcetest.Cases() {
			t.Run(c.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { c.Run(t, mySource) })
			})
		}
	}
	fmt.Println("go test -run TestMySource")
	// Output: go test -run TestMySource
}

// Each case is named after the rule that it checks.
func ExampleCases() {
	for _, c := range sourcetest.Cases()[:3] {
		fmt.Println(c.Name)
	}
	// Output:
	// M1 the name stays and is not empty
	// SRC1 each pod has a name and the UID it was given
	// SRC1 each set is the full one
}
