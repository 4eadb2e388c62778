package syncertest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/flawtest"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/syncertest"
	"github.com/podwright/podwright/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// toy is a syncer whose pods are numbers in a map, with one flaw or none.
type toy struct {
	flaw string

	mu        sync.Mutex
	running   map[types.UID]int
	held      map[types.UID]bool
	published map[types.UID]*v1.PodStatus
	stops     map[types.UID]int
	calls     int
	jammed    bool
}

func newToy(flaw string) *toy {
	return &toy{
		flaw: flaw, running: map[types.UID]int{}, held: map[types.UID]bool{},
		published: map[types.UID]*v1.PodStatus{}, stops: map[types.UID]int{},
	}
}

var errFlaw = errors.New("flawed")

func (s *toy) SyncPod(ctx context.Context, _ podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
	if err := ctx.Err(); err != nil {
		if s.flaw == "deaf" {
			<-make(chan struct{})
		}
		return podworkers.SyncResult{}, err
	}
	uid := pod.UID
	if s.flaw == "bears one call" {
		if !s.alone() {
			return podworkers.SyncResult{}, errFlaw
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[uid] = true
	if s.flaw == "edits the pod" {
		pod.Status.Phase = v1.PodRunning
	}
	if pod.Name == "job" {
		if s.flaw == "ends too early" {
			s.running[uid] = 1
		}
		s.published[uid] = &v1.PodStatus{Phase: v1.PodSucceeded}
		if s.flaw == "ends in silence" {
			s.published[uid] = &v1.PodStatus{Phase: v1.PodRunning}
		}
		return podworkers.SyncResult{Terminal: true}, nil
	}
	if s.flaw == "starts twice" {
		s.running[uid]++
	} else if s.flaw != "never starts" {
		s.running[uid] = 1
	}
	s.published[uid] = &v1.PodStatus{Phase: v1.PodRunning}
	return podworkers.SyncResult{}, nil
}

// alone reports whether no two calls ever met.
func (s *toy) alone() bool {
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	<-time.After(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jammed = s.jammed || s.calls > 1
	s.calls--
	return !s.jammed
}

func (s *toy) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, _ *runtime.PodStatus, _ *int64, edit podworkers.PodStatusFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stops[pod.UID]++
	switch {
	case ctx.Err() != nil:
		if s.flaw == "takes a cut for an end" {
			return nil
		}
		return ctx.Err()
	case s.flaw == "stops later":
		return nil
	case s.flaw == "stops what ran only" && s.running[pod.UID] == 0, s.flaw == "stops once" && s.stops[pod.UID] > 1:
		return errFlaw
	case s.flaw == "stops all":
		clear(s.running)
	}
	s.running[pod.UID] = 0
	status := &v1.PodStatus{Phase: v1.PodSucceeded}
	if edit != nil && s.flaw != "edits nothing" {
		edit(status)
	}
	s.published[pod.UID] = status
	return nil
}

func (s *toy) SyncTerminatingRuntimePod(_ context.Context, pod *runtime.Pod) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flaw != "leaves strangers" {
		s.running[pod.UID] = 0
	}
	return nil
}

func (s *toy) SyncTerminatedPod(_ context.Context, pod *v1.Pod, _ *runtime.PodStatus) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flaw == "releases once" && s.held[pod.UID] == false || s.flaw == "never releases" {
		return errFlaw
	}
	if s.flaw != "keeps" {
		delete(s.held, pod.UID)
	}
	return nil
}

func newPod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "test", UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main"}}},
	}
}

func factory(flaw string) syncertest.Factory {
	return func(*testing.T) syncertest.Subject {
		s := newToy(flaw)
		return syncertest.Subject{
			Syncer: s, Pod: newPod, Ending: newPod,
			Running: func(uid types.UID) int { s.mu.Lock(); defer s.mu.Unlock(); return s.running[uid] },
			Status:  func(uid types.UID) *v1.PodStatus { s.mu.Lock(); defer s.mu.Unlock(); return s.published[uid] },
			Held:    func(uid types.UID) bool { s.mu.Lock(); defer s.mu.Unlock(); return s.held[uid] },
			Listed:  func(_ context.Context, uid types.UID) (*runtime.Pod, error) { return &runtime.Pod{UID: uid}, nil },
		}
	}
}

// caught are flaws that syncers have or may well have, and the case that must notice.
func caught() map[string]string {
	return map[string]string{
		"never starts":           "13 SyncPod brings a pod up",
		"starts twice":           "13 SyncPod converges",
		"deaf":                   "13 SyncPod may be cut off and repeated",
		"ends too early":         "13 terminal is a pod that has ended",
		"ends in silence":        "13 terminal is a pod that has ended",
		"stops later":            "13 SyncTerminatingPod returns when nothing runs",
		"stops what ran only":    "13 SyncTerminatingPod of a pod that never ran",
		"stops once":             "13 SyncTerminatingPod may be repeated",
		"edits nothing":          "13 SyncTerminatingPod publishes what the status function says",
		"takes a cut for an end": "X2 SyncTerminatingPod may be cut off and repeated",
		"keeps":                  "13 SyncTerminatedPod releases what is held",
		"releases once":          "P4 SyncTerminatedPod may be repeated",
		"leaves strangers":       "13 SyncTerminatingRuntimePod stops what runs",
		"stops all":              "P1 a pod that stops leaves the others alone",
		"bears one call":         "P1 pods are synced side by side",
		"edits the pod":          "P7 pods stay the workers'",
		"never releases":         "I11 a life under the workers",
	}
}

// A sound syncer passes every case, so that a flaw is the reason why one does not.
func TestSoundSyncerPasses(t *testing.T) {
	for _, c := range syncertest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, factory("")) })
		})
	}
}

// kit is what is checked, by flaws.
func kit() flawtest.Kit {
	k := flawtest.Kit{Caught: caught()}
	for _, c := range syncertest.Cases() {
		k.Cases = append(k.Cases, flawtest.Case{Name: c.Name, Run: func(t *testing.T, flaw string) {
			c.Run(t, func(t *testing.T) syncertest.Subject {
				s := factory(flaw)(t)
				s.Timeout = 20 * time.Second // many flaws show as something that never comes
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

// The kit of a syncer is one test.
func ExampleRun() {
	_ = func(t *testing.T) { // TestMySyncer
		syncertest.Run(t, func(*testing.T) syncertest.Subject {
			processes := map[types.UID]int{}
			return syncertest.Subject{
				Syncer:  podworkers.PodSyncerFuncs{}, // your syncer here
				Pod:     newPod,
				Running: func(uid types.UID) int { return processes[uid] },
			}
		})
	}
	fmt.Println("go test -run TestMySyncer")
	// Output: go test -run TestMySyncer
}

// Each case is named after the rule that it checks.
func ExampleCases() {
	for _, c := range syncertest.Cases()[:3] {
		fmt.Println(c.Name)
	}
	// Output:
	// 13 SyncPod brings a pod up
	// 13 SyncPod converges
	// 13 SyncPod may be cut off and repeated
}
