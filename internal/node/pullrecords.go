package node

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// pruneRecordsEvery is the minimum time between two looks for records of images that are gone;
// while nothing is pulled, there are none.
const pruneRecordsEvery = time.Minute

// PullRecords keeps the pull records small, after collections of containers and of images.
type PullRecords struct {
	prune func(ctx context.Context) error
	clock clock.PassiveClock

	mu   sync.Mutex
	last time.Time
}

// NewPullRecords returns records that prune removes.
func NewPullRecords(prune func(ctx context.Context) error, c clock.PassiveClock) *PullRecords {
	return &PullRecords{prune: prune, clock: c}
}

// ImagesLeft returns what to call after a collection of images.
func (r *PullRecords) ImagesLeft(logger logr.Logger) func(ctx context.Context, images []string) {
	return func(ctx context.Context, _ []string) {
		if err := r.Prune(ctx); err != nil && ctx.Err() == nil {
			logger.Error(err, "Records of images that are gone stay")
		}
	}
}

// Prune removes the records of images that are gone, at most once a minute.
func (r *PullRecords) Prune(ctx context.Context) error {
	r.mu.Lock()
	now := r.clock.Now()
	due := r.last.IsZero() || now.Sub(r.last) >= pruneRecordsEvery
	if due {
		r.last = now
	}
	r.mu.Unlock()
	if !due {
		return nil
	}
	return r.prune(ctx)
}
