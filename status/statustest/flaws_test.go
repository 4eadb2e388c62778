package statustest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/flawtest"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/statustest"
)

// flawed is a sink before an API in memory, with one flaw or none.
type flawed struct {
	*statustest.Memory
	flaw            string
	broken, blocked atomic.Bool

	mu       sync.Mutex
	first    *status.PodRef
	versions map[status.PodRef]uint64
	stored   map[status.PodRef]bool
	failed   bool
	inFlight int
}

func newFlawed(flaw string) *flawed {
	return &flawed{Memory: &statustest.Memory{}, flaw: flaw, versions: map[status.PodRef]uint64{}, stored: map[status.PodRef]bool{}}
}

var errFlaw = errors.New("flawed")

func (f *flawed) Store(ctx context.Context, u status.Update) (status.StoreResult, error) {
	if err := f.hindrance(ctx); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		if f.flaw == "no answer after the end" {
			return 0, nil
		}
		return 0, ctx.Err()
	}
	f.mu.Lock()
	f.inFlight++
	busy, last := f.inFlight > 1, f.versions[u.PodRef]
	f.versions[u.PodRef] = u.Version
	again := f.stored[u.PodRef]
	f.stored[u.PodRef] = true
	if f.first == nil {
		f.first = &u.PodRef
	}
	first := *f.first
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.inFlight--; f.mu.Unlock() }()
	switch f.flaw {
	case "stores nothing":
		return status.Stored, nil
	case "loses conditions":
		u.Status = u.Status.DeepCopy()
		u.Status.Conditions = nil
	case "wants every version":
		if last > 0 && u.Version > last+1 {
			return 0, errFlaw
		}
	case "refuses what it has":
		if u.Version == last {
			return 0, errFlaw
		}
	case "newer versions only":
		if u.Version < last {
			return status.Unchanged, nil
		}
	case "edits the status":
		u.Status.Message = "edited"
	case "one pod":
		u.PodRef = first
	case "drops when busy":
		<-time.After(time.Millisecond)
		if busy {
			return status.Stored, nil
		}
	case "makes pods":
		if f.Pod(u.Namespace, u.Name) == nil {
			f.SetPod(&v1.Pod{})
			return status.Stored, nil
		}
	case "goes by name":
		if p := f.Pod(u.Namespace, u.Name); p != nil {
			u.UID = p.UID
		}
	case "chokes on the end":
		if u.Forgotten {
			return 0, errFlaw
		}
	case "loses the end":
		if u.Status.Phase == v1.PodFailed {
			return status.Stored, nil
		}
	case "once":
		if again {
			return status.Unchanged, nil
		}
	}
	return f.Memory.Store(ctx, u)
}

// hindrance fails or blocks a call as the subject asks for.
func (f *flawed) hindrance(ctx context.Context) error {
	f.mu.Lock()
	failed := f.failed
	f.failed = f.failed || f.broken.Load()
	f.mu.Unlock()
	if f.broken.Load() || failed && f.flaw == "breaks for good" {
		return errors.New("broken")
	}
	if f.blocked.Load() {
		if f.flaw == "deaf" {
			<-make(chan struct{})
		}
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (f *flawed) ReadPod(ctx context.Context, ref status.PodRef) (*v1.Pod, error) {
	pod, err := f.Memory.ReadPod(ctx, ref)
	if f.flaw == "reads strangers" && pod == nil {
		return &v1.Pod{}, nil
	}
	return pod, err
}

func (f *flawed) DeletePod(ctx context.Context, ref status.PodRef) error {
	if pod := f.Pod(ref.Namespace, ref.Name); f.flaw == "deletes by name" && pod != nil {
		ref.UID = pod.UID
	}
	return f.Memory.DeletePod(ctx, ref)
}

func subject(flaw string, listensOnly bool) statustest.Subject {
	f := newFlawed(flaw)
	s := statustest.Subject{Sink: f, Stored: f.Statuses, AddPod: f.SetPod, Break: f.broken.Store, Block: f.blocked.Store}
	if listensOnly {
		s.Sink = status.SinkFunc(f.Store)
	}
	return s
}

// caught are flaws that sinks have or may well have, and the case that must notice.
func caught() map[string]string {
	return map[string]string{
		"stores nothing":          "8.8 stores a status",
		"loses conditions":        "8.8 keeps every field",
		"wants every version":     "8.7 takes newer versions and gaps between them",
		"refuses what it has":     "8.8 takes the same status twice",
		"newer versions only":     "9.9 takes version 1 again after a restart",
		"edits the status":        "8.8 leaves its arguments alone",
		"one pod":                 "8.3 tells pods apart",
		"drops when busy":         "8.7 takes many pods at once, each in order",
		"no answer after the end": "8.8 survives a context that has ended",
		"breaks for good":         "8.7 recovers after failures",
		"deaf":                    "8.8 gives up when the context ends",
		"makes pods":              "8.3 knows which pods are gone",
		"goes by name":            "8.3 knows a recreated pod",
		"reads strangers":         "8.3 reads pods",
		"deletes by name":         "8.6 deletes pods",
		"chokes on the end":       "FG1 hears that a pod is forgotten, and takes its next life",
		"loses the end":           "8.7 follows a pod's life under a manager",
		"once":                    "9.9 follows a second manager",
	}
}

// A sound sink passes every case, so a failure is due to the flaw. A sink without a reader runs the
// case that readers do not.
func TestSoundSinkPasses(t *testing.T) {
	for _, listensOnly := range []bool{false, true} {
		statustest.Run(t, func(*testing.T) statustest.Subject { return subject("", listensOnly) })
	}
}

// kit is what is checked, by flaws.
func kit() flawtest.Kit {
	k := flawtest.Kit{Caught: caught()}
	for _, c := range statustest.Cases() {
		k.Cases = append(k.Cases, flawtest.Case{Name: c.Name, Run: func(t *testing.T, flaw string) {
			c.Run(t, func(t *testing.T) statustest.Subject {
				s := subject(flaw, strings.HasPrefix(c.Name, "FG1"))
				s.Clock = flawtest.Hurried{By: 100}
				return s
			})
		}})
	}
	return k
}

func TestFlawed(t *testing.T)         { kit().Flawed(t) }
func TestCasesHaveFlaws(t *testing.T) { kit().CasesHaveFlaws(t) }
func TestFlawsAreCaught(t *testing.T) { kit().FlawsAreCaught(t) }
