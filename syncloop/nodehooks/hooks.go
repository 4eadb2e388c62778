package nodehooks

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
)

// ErrNodeGone, wrapped in the error of PublishStatus, says that the node is not registered any
// more, because it was deleted where it was registered. The engine calls Register again, and
// then PublishStatus.
var ErrNodeGone = errors.New("the node is not registered any more")

// Hooks are the actions of an agent for its node as a whole (spec/syncloop.md 16). Each is
// optional; the zero value does nothing. The engine calls them on its own goroutines
// with a context that ends with Run, and they should return soon after it ends. Register,
// PublishStatus and RenewLease have 30 s per call: then the context ends and the call has
// failed, but the hook is not called again before it has returned (IN6). A panic counts
// as an error; neither stops the engine, except in Initialise.
type Hooks struct {
	// Initialise runs once, before anything else of Run. Its error ends Run.
	Initialise func(ctx context.Context) error
	// RuntimeReady runs once, when the runtime is healthy for the first time: use it to
	// start anything that needs one. An error is logged.
	RuntimeReady func(ctx context.Context) error
	// Register makes the node known. It is repeated after 100 ms, doubling up to 7 s,
	// until it returns nil; never concurrently, and not again after that unless PublishStatus
	// reports [ErrNodeGone].
	Register func(ctx context.Context) error
	// PublishStatus publishes the status of the node, once it is registered: as soon as it
	// is Ready, then whenever a check every 10 s (up to 4 % later) finds that anything but
	// the heartbeat changed, and every 5 min anyway. A failed call is repeated at once, up
	// to 5 attempts in all, unless the error is [ErrNodeGone]. See [Status] for the meaning
	// of attempts.
	PublishStatus func(ctx context.Context, s Status) error
	// RenewLease shows that the node is alive, once it is registered: at once and then
	// every [LeasePeriod], for a lease of the given duration ([LeaseDuration]).
	RenewLease func(ctx context.Context, duration time.Duration) error

	// Changed makes the engine call PublishStatus soon, for changes that the engine cannot
	// see: other addresses, images or devices, or a node that is gone. Give it room for one
	// value and send without waiting, so that many changes become one call. Optional.
	Changed <-chan struct{}

	// Rand returns a number in [0, 1) for the jitter of PublishStatus. One goroutine calls
	// it. If nil, the engine has its own source with a random seed.
	Rand func() float64
}

// Status is the status of the node.
type Status struct {
	// Conditions are MemoryPressure, DiskPressure and PIDPressure, if the engine watches
	// the node's resources, and last Ready. LastTransitionTime is filled in.
	Conditions []v1.NodeCondition
	// Attempt counts the calls for one status, from 0. On the first a client may read
	// the node from a cache; after the second has failed it should make new
	// connections.
	Attempt int
}

// The lease of the node.
const (
	LeaseDuration = 40 * time.Second
	LeasePeriod   = LeaseDuration / 4
)
