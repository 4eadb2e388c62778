package statustest

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/watchtest"
	"github.com/podwright/podwright/status"
)

// Subject is one fresh sink, with ways to look behind it.
type Subject struct {
	// Sink is the sink under test. Required.
	Sink status.StatusSink
	// Stored returns the statuses the sink has stored for a UID, oldest first; a
	// sink that keeps only the newest returns that one. Required.
	Stored func(uid types.UID) []v1.PodStatus
	// AddPod makes a pod exist where the sink stores, replacing one of the same
	// namespace and name. Nil for a sink that takes any pod.
	AddPod func(pod *v1.Pod)
	// Break makes stores fail, or work again. Nil if the subject cannot do that.
	Break func(broken bool)
	// Block makes stores wait until their context ends, or work again. Nil if the subject cannot do
	// that.
	Block func(blocked bool)
	// Timeout limits one case: a case that takes longer fails, shows its stacks and is left behind.
	// 0 means one minute. It is measured on Clock; nil means the real clock.
	Timeout time.Duration
	Clock   clock.WithTicker
}

// Factory creates a subject for one case. Clean-up goes through t.Cleanup.
type Factory func(t *testing.T) Subject

// Case is one case of the kit.
type Case struct {
	// Name is unique: the rule of docs/spec/status.md and what that promises.
	Name string
	// Run executes the case on a fresh subject. It calls no t.Run and no
	// t.Parallel, so it may be run in a testing/synctest bubble.
	Run func(t *testing.T, factory Factory)
}

// Run runs every case that the factory's subjects support, each as a subtest with its own subject.
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
		run  func(t *watchtest.T, s *subject)
	}{
		{"8.8 stores a status", storesOne},
		{"8.8 keeps every field", keepsEveryField},
		{"8.7 takes newer versions and gaps between them", takesNewer},
		{"8.8 takes the same status twice", takesTwice},
		{"9.9 takes version 1 again after a restart", takesRestart},
		{"8.8 leaves its arguments alone", leavesArguments},
		{"8.3 tells pods apart", tellsPodsApart},
		{"8.7 takes many pods at once, each in order", takesMany},
		{"8.8 survives a context that has ended", survivesEndedContext},
		{"8.7 recovers after failures", recovers},
		{"8.8 gives up when the context ends", givesUp},
		{"8.3 knows which pods are gone", knowsGone},
		{"8.3 knows a recreated pod", knowsRecreated},
		{"8.3 reads pods", readsPods},
		{"8.6 deletes pods", deletesPods},
		{"FG1 hears that a pod is forgotten, and takes its next life", hearsForgotten},
		{"8.7 follows a pod's life under a manager", followsLife},
		{"9.9 follows a second manager", followsRestart},
	} {
		cases = append(cases, Case{Name: c.name, Run: func(t *testing.T, factory Factory) {
			t.Helper()
			runCase(t, factory, c.run)
		}})
	}
	return cases
}

// patience limits the clean-up of a case.
const patience = 10 * time.Second

func runCase(t *testing.T, factory Factory, run func(t *watchtest.T, s *subject)) {
	t.Helper()
	s := factory(t)
	if s.Sink == nil || s.Stored == nil {
		t.Fatal("statustest: Subject needs Sink and Stored")
	}
	if s.Timeout == 0 {
		s.Timeout = time.Minute
	}
	if s.Clock == nil {
		s.Clock = clock.RealClock{}
	}
	limits := watchtest.Limits{Clock: s.Clock, Body: s.Timeout, Cleanup: patience, Subject: "the sink"}
	watchtest.Run(t, limits, func(w *watchtest.T) { run(w, &subject{Subject: s}) })
}
