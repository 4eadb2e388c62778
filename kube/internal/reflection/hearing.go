package reflection

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
)

// errSilent says that a watch was abandoned because of its silence.
var errSilent = errors.New("the watch is silent")

// hearing is a store that records when the server was last heard. A server that sends bookmarks
// does so about once a minute. It sends neither bookmarks nor an error to a watch from a revision
// that it does not have, for example after its store was restored from a backup.
type hearing struct {
	cache.ReflectorStore
	clock   clock.Clock
	silence time.Duration

	mu sync.Mutex
	at time.Time
	// bookmarks says that the server has sent one. Until then a watch may be silent for longer: it
	// is young, or the server sends no bookmarks.
	bookmarks bool
}

var _ cache.ReflectorBookmarkStore = (*hearing)(nil)

// Bookmark records that the watch is alive.
func (h *hearing) Bookmark(string) error {
	h.hear(true)
	return nil
}

func (h *hearing) Add(o any) error {
	h.hear(false)
	return h.ReflectorStore.Add(o)
}

func (h *hearing) Update(o any) error {
	h.hear(false)
	return h.ReflectorStore.Update(o)
}

func (h *hearing) Delete(o any) error {
	h.hear(false)
	return h.ReflectorStore.Delete(o)
}

func (h *hearing) Replace(list []any, version string) error {
	h.hear(false)
	return h.ReflectorStore.Replace(list, version)
}

func (h *hearing) hear(bookmark bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at, h.bookmarks = h.clock.Now(), h.bookmarks || bookmark
}

// left is how much longer the watch may be silent.
func (h *hearing) left() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	limit := h.silence
	if !h.bookmarks {
		limit = max(limit, watchLife)
	}
	return limit - h.clock.Since(h.at)
}

// listen calls watch until it returns, or until it has been silent for too long; then the error is
// errSilent. A nil hearing listens forever.
func (h *hearing) listen(ctx context.Context, watch func(ctx context.Context) error) error {
	if h == nil {
		return watch(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	h.hear(false)
	var guard sync.WaitGroup
	guard.Go(func() {
		for left := h.left(); left > 0; left = h.left() {
			if timing.Sleep(ctx, h.clock, left) != nil {
				return
			}
		}
		cancel(errSilent)
	})
	err := watch(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		err = cause
	}
	cancel(nil)
	guard.Wait()
	return err
}
