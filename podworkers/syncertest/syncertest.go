package syncertest

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/watchtest"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// Factory returns a syncer under test. It is called once per case, on the goroutine of that
// case, and ends what it starts with t.Cleanup.
type Factory func(t *testing.T) Subject

// Subject is a syncer under test and how to look at what it does.
type Subject struct {
	// Syncer is what is tested. Required.
	Syncer podworkers.PodSyncer
	// Pod returns a pod that the syncer can run, with the given name and a UID of its own. It
	// runs until it is stopped, and ends when it is asked to. Required.
	Pod func(name string) *v1.Pod
	// Running returns how many containers, or processes, of the pod run now. A pod that is
	// up has one for each container of its spec. Required.
	Running func(uid types.UID) int

	// Views is the view that the workers have; calls are made with views that are newer than
	// the last call. Nil: all views are nil.
	Views podworkers.StatusSource
	// Status returns the status published last, nil if none was. Nil: cases about it are skipped.
	Status func(uid types.UID) *v1.PodStatus
	// Held reports whether something is held for the pod: a folder, a cgroup, a port.
	// Nil: cases about it are skipped.
	Held func(uid types.UID) bool
	// Ending returns a pod that ends by itself soon, for good. Nil: cases about it are skipped.
	Ending func(name string) *v1.Pod
	// Listed returns what is known of a pod from the runtime only. Nil: cases about such
	// pods are skipped.
	Listed func(ctx context.Context, uid types.UID) (*runtime.Pod, error)

	// Clock measures waits. Nil means the real clock. It must advance by itself.
	Clock clock.WithTicker
	// Timeout limits one case, on the context. 0 means one minute.
	Timeout time.Duration
}

// Case is one case of the kit.
type Case struct {
	// Name is unique: the rule and what it promises.
	Name string
	// Run executes the case on a fresh subject. It calls no t.Run and no
	// t.Parallel, so it may be run in a testing/synctest bubble.
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
		{"13 SyncPod brings a pod up", comesUp},
		{"13 SyncPod converges", converges},
		{"13 SyncPod may be cut off and repeated", syncMayBeCutOff},
		{"13 terminal is a pod that has ended", terminalHasEnded},
		{"13 SyncTerminatingPod returns when nothing runs", stops},
		{"13 SyncTerminatingPod of a pod that never ran", stopsWhatNeverRan},
		{"13 SyncTerminatingPod may be repeated", stopMayBeRepeated},
		{"13 SyncTerminatingPod publishes what the status function says", statusIsEdited},
		{"X2 SyncTerminatingPod may be cut off and repeated", stopMayBeCutOff},
		{"13 SyncTerminatedPod releases what is held", releases},
		{"P4 SyncTerminatedPod may be repeated", releaseMayBeRepeated},
		{"13 SyncTerminatingRuntimePod stops what runs", stopsListed},
		{"P1 a pod that stops leaves the others alone", othersRunOn},
		{"P1 pods are synced side by side", sideBySide},
		{"P7 pods stay the workers'", podsStay},
		{"I11 a life under the workers", lives},
	} {
		cases = append(cases, Case{Name: c.name, Run: func(t *testing.T, factory Factory) {
			t.Helper()
			runCase(t, factory, c.run)
		}})
	}
	return cases
}

const defaultTimeout = time.Minute

// env is what a case works with.
type env struct {
	*watchtest.T
	Subject
	ctx context.Context
}

func runCase(t *testing.T, factory Factory, body func(*env)) {
	t.Helper()
	s := factory(t)
	if s.Syncer == nil || s.Pod == nil || s.Running == nil {
		t.Fatal("syncertest: Subject needs Syncer, Pod and Running")
	}
	if s.Clock == nil {
		s.Clock = clock.RealClock{}
	}
	if s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
	limits := watchtest.Limits{Clock: s.Clock, Body: s.Timeout, Cleanup: s.Timeout, Subject: "the syncer"}
	watchtest.RunContext(t, limits, func(ctx context.Context, w *watchtest.T) {
		body(&env{T: w, Subject: s, ctx: ctx})
	})
}
