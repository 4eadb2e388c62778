package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// TestDeafListHoldsNoShutdown: a runtime whose list ignores the end of its context keeps no pod from
// being told to stop, and the shutdown ends with its plan or its context (section 16).
func TestDeafListHoldsNoShutdown(t *testing.T) {
	for name, test := range map[string]struct {
		limit, took time.Duration
		want        error
	}{
		"the plan ends":    {time.Hour, shutdown.DefaultTime + deafAfter, errRunningUnknown},
		"the context ends": {10 * time.Second, 10*time.Second + deafAfter, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, workers := newShutdown(t, newPod("a"), newPod("b"))
				answer := make(chan struct{})
				s.Runtime = &runtimeList{pods: []*runtime.Pod{listed("leftover")}, asked: func() { <-answer }}
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				defer cancel()
				began := time.Now()
				report, err := s.Run(ctx, shutdown.Plan{})
				if took := time.Since(began); !errors.Is(err, test.want) || took != test.took || !report.Ended.IsZero() {
					t.Errorf("%+v, %v after %v", report, err, took)
				}
				if test.want == errRunningUnknown && !errors.Is(err, errDeaf) {
					t.Errorf("%v does not say that the runtime is deaf", err)
				}
				close(answer) // too late for the report
				synctest.Wait()
				if got := workers.calls.take(); len(got) != 2 || len(report.Pods) != 2 || !report.Pods[0].Released || !report.Pods[1].Released {
					t.Errorf("told %v, %+v", got, report)
				}
			})
		})
	}
}

// TestDeafRemovalHoldsNoShutdown: a removal that ignores the end of its context costs no more than one
// that hears, and what it answers later does not change the report (section 16).
func TestDeafRemovalHoldsNoShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newShutdown(t, newStatic("deaf"), newStatic("well"))
		answer := make(chan struct{})
		s.RemovePod = func(_ context.Context, uid types.UID) error {
			if uid == "well" {
				return nil
			}
			<-answer
			return errors.New("too late")
		}
		began := time.Now()
		report, err := s.Run(t.Context(), shutdown.Plan{})
		if took := time.Since(began); err != nil || took != removeTimeout+deafAfter || report.Ended.IsZero() {
			t.Errorf("%+v, %v after %v", report, err, took)
		}
		before := slices.Clone(report.Pods)
		close(answer)
		synctest.Wait()
		if !slices.Equal(before, report.Pods) || !strings.Contains(before[0].Problem, errDeaf.Error()) || before[1].Problem != "" {
			t.Errorf("%+v, and later %+v", before, report.Pods)
		}
	})
}

// TestDeafListHoldsNoDrain beyond its context: what the workers know is removed all the same.
func TestDeafListHoldsNoDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		d := &drained{listed: []*runtime.Pod{runningPod("unknown")}, asked: func() { <-answer }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := d.run(ctx)
		if took := time.Since(began); !errors.Is(err, errDeaf) || took != time.Minute+deafAfter {
			t.Errorf("%v after %v", err, took)
		}
		close(answer)
		synctest.Wait()
		if got := d.take(); !slices.Equal(got, []string{"terminate", "list"}) {
			t.Errorf("calls %v", got)
		}
	})
}

// TestAnsweredHears: a call that returns soon after the end of its context gives its own reason, and
// a panic is an error.
func TestAnsweredHears(t *testing.T) {
	own := errors.New("my reason")
	for name, test := range map[string]struct {
		call func(ctx context.Context) (*v1.Pod, error)
		want func(err error) bool
	}{
		"hears": {func(ctx context.Context) (*v1.Pod, error) {
			<-ctx.Done()
			<-time.After(deafAfter / 2)
			return nil, own
		}, func(err error) bool { return errors.Is(err, own) }},
		"panics": {func(context.Context) (*v1.Pod, error) { panic("broken") }, func(err error) bool {
			return errors.As(err, new(*foreign.PanicError))
		}},
		"is deaf": {func(context.Context) (*v1.Pod, error) {
			<-time.After(time.Hour)
			return newPod("late"), nil
		}, func(err error) bool { return errors.Is(err, errDeaf) && errors.Is(err, context.DeadlineExceeded) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newShutdown(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if got, err := answered(ctx, s.Clock, "Call", test.call); got != nil || !test.want(err) {
					t.Errorf("%v, %v", got, err)
				}
				<-time.After(time.Hour)
			})
		})
	}
}
