package pleg

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Why a [Generator] is not healthy, to be tested with errors.Is on the error of
// Healthy.
var (
	// ErrNeverListed: no list of the runtime has succeeded yet (H1).
	ErrNeverListed = errors.New("pleg has yet to be successful")
	// ErrListFailing: no list has succeeded within the threshold, and the
	// latest failed.
	ErrListFailing = errors.New("lists of the runtime fail")
	// ErrListSlow: no list has succeeded within the threshold, and one is
	// under way.
	ErrListSlow = errors.New("the runtime does not answer a list")
)

// Health is how the reading of the runtime goes.
type Health struct {
	// Err is what Healthy returns. Hung inspections are not part of it: they
	// harm their pods only (B5).
	Err error
	// LastList is when the latest successful list began; zero if none has.
	LastList time.Time
	// ListErr is why the latest list failed; nil if it did not.
	ListErr error
	// Hung names the pods whose last inspection ran out of time, sorted by UID.
	Hung []HungPod
	// WrittenOff is the number of runtime calls that ignore the end of their
	// context and were given up (B4).
	WrittenOff int
	// Paused is true while there are so many of these that no new inspection
	// begins.
	Paused bool
}

// HungPod is a pod whose inspection ran out of time.
type HungPod struct {
	UID             types.UID
	Name, Namespace string
	// Failures in a row, and when the next try is due.
	Failures int
	Retry    time.Time
}

// Healthy returns nil if the runtime has been listed within the health threshold,
// else an error that says why not and carries both times (H1, H2).
func (g *Generator) Healthy() error { return g.Health().Err }

// Health returns the details of Healthy, and what else is wrong.
func (g *Generator) Health() Health { return Health{Err: ErrNeverListed} }
