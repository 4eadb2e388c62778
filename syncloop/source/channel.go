package source

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/syncloop"
)

// ErrClosed is returned by the methods of a [Channel] that was closed.
var ErrClosed = errors.New("the source is closed")

// ChannelOptions configures a [Channel]. The zero value is ready to use.
type ChannelOptions struct {
	// Name of the source. Default "channel".
	Name string
	// NodeName becomes the pods' spec.nodeName and part of generated UIDs.
	NodeName string
	// Clock is the source's time. Nil means the real clock.
	Clock clock.PassiveClock
}

// Channel is a source fed by the program itself (section 4.6). Pods are
// completed with [Default] and checked with [Validate]; one without a UID gets
// one derived from its content, so a changed pod of the same name is a new pod.
//
// Make one with [NewChannel]; methods are safe for concurrent use. Set, Apply
// and Close wait until the loop runs the source and has accepted the change
// (P1), or until their context ends, in which case nothing was changed.
type Channel struct{}

// NewChannel returns an empty source. The source counts as seen after the first
// Set or Apply (P2): a program that wants no pods yet calls Set with none.
func NewChannel(options ChannelOptions) *Channel { return &Channel{} }

// Name returns the source's name.
func (c *Channel) Name() string { return "" }

// Precedence returns syncloop.PrecedenceInProcess.
func (c *Channel) Precedence() syncloop.Precedence { return syncloop.PrecedenceInProcess }

// Set replaces all pods of the source. The pods stay the caller's. Pods that are
// not valid are left out, a version of them that was accepted before stays, and
// the error joins one [PodError] for each; the valid ones are taken over.
func (c *Channel) Set(ctx context.Context, pods []*v1.Pod) error { return nil }

// Apply adds pods, replaces those of the same UID or the same name, and removes
// the given UIDs; removing an unknown UID is no error. Invalid pods are treated
// as in Set.
func (c *Channel) Apply(ctx context.Context, upsert []*v1.Pod, remove ...types.UID) error { return nil }

// Close ends the source; its Run returns nil. The pods stay desired unless
// removeAll is true (P3). A second Close returns ErrClosed.
func (c *Channel) Close(ctx context.Context, removeAll bool) error { return nil }

// Run serves Set, Apply and Close until Close or until ctx ends. At most one Run
// at a time.
func (c *Channel) Run(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) error {
	return nil
}

// Health reports the time of the last accepted change.
func (c *Channel) Health() syncloop.SourceHealth { return syncloop.SourceHealth{} }

// PodError says why one pod was refused.
type PodError struct {
	// Namespace, Name and UID as given.
	Namespace, Name string
	UID             types.UID
	// Err lists every reason.
	Err error
}

// Error names the pod and the reasons.
func (e *PodError) Error() string { return "pod " + e.Namespace + "/" + e.Name + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *PodError) Unwrap() error { return e.Err }
