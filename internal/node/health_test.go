package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

func conditions(list ...*runtimeapi.RuntimeCondition) *runtimeapi.StatusResponse {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: list}}
}

// TestStatusAnswerIsJudgedByItsConditions is RH1 and RH4: missing and false conditions are errors, each its own; what
// the runtime says of its storage or of anything else stops nothing.
func TestStatusAnswerIsJudgedByItsConditions(t *testing.T) {
	good := func(name string) *runtimeapi.RuntimeCondition {
		return &runtimeapi.RuntimeCondition{Type: name, Status: true}
	}
	bad := func(name string) *runtimeapi.RuntimeCondition {
		return &runtimeapi.RuntimeCondition{Type: name, Reason: "Broken", Message: "no config"}
	}
	tests := []struct {
		name             string
		response         *runtimeapi.StatusResponse
		runtime, network string // part of the error, "" for none
	}{
		{"both good", conditions(good(runtimeapi.RuntimeReady), good(runtimeapi.NetworkReady)), "", ""},
		{"network false", conditions(good(runtimeapi.RuntimeReady), bad(runtimeapi.NetworkReady)), "", "Broken no config"},
		{"runtime false", conditions(bad(runtimeapi.RuntimeReady), good(runtimeapi.NetworkReady)), "Broken no config", ""},
		{"storage false (RH4)", conditions(good(runtimeapi.RuntimeReady), good(runtimeapi.NetworkReady), bad("StorageReady")), "", ""},
		{"network missing", conditions(good(runtimeapi.RuntimeReady)), "", "does not report"},
		{"empty answer", &runtimeapi.StatusResponse{}, "does not report", "does not report"},
		{"nil answer", nil, "does not report", "does not report"},
	}
	check := func(t *testing.T, what string, err error, want string) {
		t.Helper()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := judge(test.response)
			check(t, "runtime", v.runtime, test.runtime)
			check(t, "network", v.network, test.network)
		})
	}
}

// answers is a runtime that answers as told.
type answers struct {
	mu       sync.Mutex
	response *runtimeapi.StatusResponse
	err      error
}

func (a *answers) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.response, a.err
}

func (a *answers) set(response *runtimeapi.StatusResponse, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.response, a.err = response, err
}

// TestAnswerCountsFor30Seconds is RH2: an answer counts for 30 s, and an error keeps the old one until
// then.
func TestAnswerCountsFor30Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &answers{err: errors.New("connection refused")}
		var changes atomic.Int32
		h := NewHealth(HealthOptions{Runtime: rt, Clock: clock.RealClock{}, Changed: func() { changes.Add(1) }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = h.Run(ctx) }()
		defer func() { cancel(); <-done }()
		pass := func(d time.Duration) { <-time.After(d); synctest.Wait() }

		pass(time.Second)
		if err := h.Runtime(); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("before any good answer: %v", err)
		}
		rt.set(conditions(&runtimeapi.RuntimeCondition{Type: runtimeapi.RuntimeReady, Status: true}), nil)
		pass(5 * time.Second)
		if err := h.Runtime(); err != nil {
			t.Errorf("after a good answer: %v", err)
		}
		select {
		case <-h.WellOnce():
		default:
			t.Error("the runtime was never well")
		}
		if err := h.Network(); err == nil {
			t.Error("the network is ready without a word of it")
		}
		rt.set(nil, errors.New("connection refused"))
		pass(29 * time.Second)
		if err := h.Runtime(); err != nil {
			t.Errorf("29 s later: %v", err)
		}
		pass(6 * time.Second)
		if err := h.Runtime(); err == nil || !strings.Contains(err.Error(), "down for") {
			t.Errorf("35 s later: %v", err)
		}
		if changes.Load() != 2 {
			t.Errorf("%d changes announced, want 2: it came, it went", changes.Load())
		}
	})
}

// slowAnswers is a runtime that takes some time to answer.
type slowAnswers struct {
	answers
	takes time.Duration
}

func (s *slowAnswers) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	<-time.After(s.takes)
	return s.answers.Status(ctx, verbose)
}

// TestReturnOfARuntimeThatWasTooLateIsAChange is RH2: the last answer can become too old while the
// next one is in progress. Whatever saw that is told that the runtime is back.
func TestReturnOfARuntimeThatWasTooLateIsAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := conditions(&runtimeapi.RuntimeCondition{Type: runtimeapi.RuntimeReady, Status: true},
			&runtimeapi.RuntimeCondition{Type: runtimeapi.NetworkReady, Status: true})
		rt := &slowAnswers{answers: answers{response: good}}
		var changes int
		h := NewHealth(HealthOptions{Runtime: rt, Clock: clock.RealClock{}, Changed: func() { changes++ }})
		h.ask(t.Context())
		if err := h.Runtime(); err != nil || changes != 1 {
			t.Fatalf("%v, %d changes", err, changes)
		}
		<-time.After(healthStale - time.Second)
		rt.takes = 2 * time.Second
		asked := make(chan struct{})
		go func() { defer close(asked); h.ask(t.Context()) }()
		<-time.After(rt.takes - time.Millisecond)
		if h.Runtime() == nil {
			t.Error("the last answer is not too old")
		}
		<-asked
		if err := h.Runtime(); err != nil || changes != 2 {
			t.Errorf("after the answer: %v, %d changes, want 2", err, changes)
		}
	})
}

// TestPausedAgentSaysSoInItsHealth: IN16. An agent that was paused for more than 30 s has a
// last call that did not fail, and its health says what is true: the runtime was not asked.
func TestPausedAgentSaysSoInItsHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHealth(HealthOptions{Clock: clock.RealClock{}})
		h.verdict, h.lastGood = verdict{}, time.Now().Add(-31*time.Second)
		if err := h.Runtime(); err == nil || err.Error() != "the container runtime has not been asked for 31s" {
			t.Errorf("health %v", err)
		}
	})
}

// TestSlowAnswerThatHearsNothingCounts is RH2: a runtime that takes longer than the limit of a question, and does not see that its
// context ends, is slow, not down.
func TestSlowAnswerThatHearsNothingCounts(t *testing.T) {
	for _, takes := range []time.Duration{healthTimeout + deafAfter/2, healthTimeout + healthRetry/2, healthTimeout + 2*healthRetry, 2 * healthTimeout} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := &slowAnswers{answers: answers{response: conditions(
					&runtimeapi.RuntimeCondition{Type: runtimeapi.RuntimeReady, Status: true},
					&runtimeapi.RuntimeCondition{Type: runtimeapi.NetworkReady, Status: true})}, takes: takes}
				h := NewHealth(HealthOptions{Runtime: rt, Clock: clock.RealClock{}, Changed: func() {}})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- h.Run(ctx) }()
				<-time.After(takes + 2*healthRetry)
				for range 600 {
					if err := h.Runtime(); err != nil {
						t.Fatal(err)
					}
					<-time.After(time.Second)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				<-time.After(takes) // the call goes on
			})
		})
	}
}
