package sourcetest

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/watchtest"
	"github.com/podwright/podwright/syncloop"
)

// Factory returns a source under test. It is called once per case, on the goroutine of that
// case, and stops everything it starts with t.Cleanup.
type Factory func(t *testing.T) Subject

// Subject is a source under test and the origin that it reads.
type Subject struct {
	// Source is the source under test. It has not run yet. Required.
	Source syncloop.Source
	// Set makes the origin want exactly these pods. Each has a UID, a name, a namespace
	// and one container; the pods belong to the kit. The kit calls Set while the source
	// runs, and Set may wait until the source has delivered the pods. Required.
	Set func(ctx context.Context, pods ...*v1.Pod) error
	// Break makes the origin unreadable, or readable again with the pods it had. It
	// returns once the source has noticed. If nil, the cases about it are skipped.
	Break func(ctx context.Context, broken bool) error

	// Clock measures waits. Nil means the real clock. It must advance on its own.
	Clock clock.WithTicker
	// Timeout limits one case by its context. 0 means one minute.
	Timeout time.Duration
}

// Case is one case of the kit.
type Case struct {
	// Name is unique: the rule and what it promises.
	Name string
	// Run executes the case on a fresh subject. It does not call t.Run or
	// t.Parallel, so it may run in a testing/synctest bubble.
	Run func(t *testing.T, factory Factory)
}

// Run runs every case as a subtest of t, one after the other.
func Run(t *testing.T, factory Factory) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, factory) })
	}
}

// Cases returns the kit, for callers that wrap each case, for instance in a bubble.
func Cases() []Case {
	var cases []Case
	for _, c := range []struct {
		name string
		run  func(e *env)
	}{
		{"M1 the name stays and is not empty", nameStays},
		{"SRC1 each pod has a name and the UID it was given", podsHaveIdentity},
		{"SRC1 each set is the full one", setsAreFull},
		{"SRC3 no pods are an empty set", nothingIsASet},
		{"SRC3 a pod that goes is left out", goneIsLeftOut},
		{"M6 a pod that changes is delivered again", changesArrive},
		{"M4 a pod is in a set once", podsComeOnce},
		{"SRC2 what cannot be read keeps its pods", unreadableKeeps},
		{"SRC4 a run that begins unreadable removes nothing", brokenStartRemovesNothing},
		{"SRC4 failures are told and forgotten", healthIsTold},
		{"A3 a later run tells the whole set", laterRunIsFull},
		{"M2 nothing is lost on a slow loop", slowLoopLosesNothing},
		{"IN9 the run ends with its context", runEnds},
		{"IN9 the run ends while a delivery waits", runEndsWhileHeld},
	} {
		cases = append(cases, Case{Name: c.name, Run: func(t *testing.T, factory Factory) {
			t.Helper()
			runCase(t, factory, c.run)
		}})
	}
	return cases
}

const defaultTimeout = time.Minute

// env is the environment of a case.
type env struct {
	*watchtest.T
	Subject
	ctx context.Context
}

func runCase(t *testing.T, factory Factory, body func(*env)) {
	t.Helper()
	s := factory(t)
	if s.Source == nil || s.Set == nil {
		t.Fatal("sourcetest: Subject needs Source and Set")
	}
	if s.Clock == nil {
		s.Clock = clock.RealClock{}
	}
	if s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
	limits := watchtest.Limits{Clock: s.Clock, Body: s.Timeout, Cleanup: 2 * watchtest.Patience, Subject: "the source, or the subject's Set or Break,"}
	watchtest.RunContext(t, limits, func(ctx context.Context, w *watchtest.T) {
		body(&env{T: w, Subject: s, ctx: ctx})
	})
}
