package syncloop

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/problem"
)

// TestStuckLoopIsAProblem: IN2, L6. An iteration that does not end is listed after 10 s, and a
// housekeeping pass after a minute. Either one harms all pods once it has been stuck for StuckAfter.
func TestStuckLoopIsAProblem(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	l, err := New(func(Work) {}, Options{Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	began := c.Now()
	for _, tc := range []struct {
		kind  problem.Kind
		begin func()
		end   func()
		limit time.Duration
	}{
		{problem.Loop, func() { l.busySince.Store(&began) }, func() { l.busySince.Store(nil) }, 10 * time.Second},
		{problem.Housekeeping, func() { l.passSince.Store(&began) }, func() { l.passSince.Store(nil) }, time.Minute},
	} {
		tc.begin()
		for _, at := range []struct {
			age      time.Duration
			severity problem.Severity // empty: it is not listed
		}{
			{tc.limit - 1, ""},
			{tc.limit, problem.Listed},
			{5 * time.Minute, problem.Listed},
			{5*time.Minute + 1, problem.Unhealthy},
		} {
			c.SetTime(began.Add(at.age))
			got := l.Problems()
			switch {
			case at.severity == "" && got == nil:
			case len(got) != 1 || got[0].Kind != tc.kind || got[0].Severity != at.severity || !got[0].Since.Equal(began):
				t.Errorf("%s after %v: %v", tc.kind, at.age, got)
			}
		}
		tc.end()
		if got := l.Problems(); got != nil {
			t.Errorf("%s that has ended: %v", tc.kind, got)
		}
	}
}

// complaining is a source that reports problems.
type complaining struct {
	listed []problem.Problem
}

func (complaining) Name() string { return "fleet" }

func (complaining) Run(context.Context, func(context.Context, []*v1.Pod) error) error { return nil }

func (c complaining) Unreadable() []problem.Problem { return c.listed }

// TestSourceHarmsOnlyItsPods: IN2. A problem that a source reports is one of a source, and is listed, whatever the source
// says of kind and severity; the source's own list stays as it is.
func TestSourceHarmsOnlyItsPods(t *testing.T) {
	bad := errors.New("no such field")
	listed := []problem.Problem{{Name: "one", Err: bad}, {Kind: problem.Record, Severity: problem.Unhealthy, Name: "two"}}
	l, err := New(func(Work) {}, Options{Sources: []Source{complaining{listed}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []problem.Problem{
		{Kind: problem.Source, Severity: problem.Listed, Name: "one", Cause: "no such field", Err: bad},
		{Kind: problem.Source, Severity: problem.Listed, Name: "two"},
	}
	if got := l.Problems(); !slices.Equal(got, want) || listed[1].Severity != problem.Unhealthy {
		t.Errorf("%+v; the source's own list: %+v", got, listed)
	}
}

// TestPodAtTheGateIsAProblem: IN2, IN13. A new or changed pod that has waited for 30 s because the
// gate is shut is listed until the gate opens. A sync of an unchanged pod is not listed.
func TestPodAtTheGateIsAProblem(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	shut := errors.New("the runtime is down")
	gate := shut
	l, err := New(func(Work) {}, Options{Clock: c, Gate: func() error { return gate }})
	if err != nil {
		t.Fatal(err)
	}
	began := c.Now()
	for kind, uid := range map[WorkKind]types.UID{WorkCreate: "new", WorkSync: "same", WorkUpdate: "changed"} {
		l.held.submit(t.Context(), Work{Kind: kind, Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "default", Name: string(uid)}}})
	}
	c.Step(30*time.Second - 1)
	l.held.flush(t.Context())
	if got := l.Problems(); got != nil {
		t.Errorf("too soon: %v", got)
	}
	c.Step(1)
	names := map[string]bool{}
	for _, p := range l.Problems() {
		names[p.Name] = true
		if p.Kind != problem.Pod || !p.Since.Equal(began) || !errors.Is(p, shut) {
			t.Errorf("%+v", p)
		}
	}
	if len(names) != 2 || !names["default/new"] || !names["default/changed"] {
		t.Errorf("listed: %v", names)
	}
	gate = nil
	l.held.flush(t.Context())
	if got := l.Problems(); got != nil {
		t.Errorf("the gate is open: %v", got)
	}
}
