package podsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/podinfo"
)

// patience is how long lists older than what was known are refused (KS8).
const patience = time.Minute

// interrupted is how far apart two refused lists are if there was an outage between them: they say
// nothing about the time between, in which the API server may have been ahead.
const interrupted = 90 * time.Second

// errOlder says that a list is older than what this node has already acted on.
var errOlder = errors.New("the API server's list is older than what was known")

// revision is the newest revision seen. Revisions of one API server can be compared as numbers; one
// that is not a number never counts as older.
type revision struct {
	options Options
	// moved has one slot, which is filled while the newest revision is not on disk yet.
	moved chan struct{}

	mu     sync.Mutex
	newest uint64
	// since is when the API server was first seen to be behind; zero if it is not.
	since time.Time
	// refused is when its list was last refused.
	refused time.Time
}

// loadRevision reads the previous run's file, if there is one. A disk that does not give it back keeps no agent from its pods (KS7).
func loadRevision(o Options) (*revision, error) {
	r := &revision{options: o, moved: make(chan struct{}, 1)}
	if o.RevisionFile == "" {
		return r, nil
	}
	content, err := os.ReadFile(o.RevisionFile)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if durable.DiskFault(err) {
		o.Logger.Error(err, "The revision of the last run cannot be read; a list older than that may be accepted")
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the revision of the last run: %w", err)
	}
	if r.newest, err = strconv.ParseUint(strings.TrimSpace(string(content)), 10, 64); err != nil {
		return nil, fmt.Errorf("the file %s holds no revision: %w; remove it to accept whatever the API server says", o.RevisionFile, err)
	}
	return r, nil
}

// accept decides whether a list with that revision may become the set.
func (r *revision) accept(of string) error {
	listed, err := strconv.ParseUint(of, 10, 64)
	if err != nil {
		return nil
	}
	known, since := r.judge(listed)
	switch now := r.options.Clock.Now(); {
	case listed >= known:
	case now.Sub(since) < patience:
		return fmt.Errorf("%w: its revision is %d, and this node has seen %d; it is accepted if the API server stays behind for %s", errOlder, listed, known, patience)
	default:
		r.mu.Lock()
		r.advance(listed)
		r.mu.Unlock()
		message := fmt.Sprintf("the API server has been at revision %d for %s, and this node had seen %d: it was restored from a backup, or is another one. Its pods are the ones that count from now on", listed, patience, known)
		r.options.Logger.Info("The API server is behind what this node has seen", "revision", listed, "known", known)
		r.options.Events.Eventf(podinfo.NodeReference(r.options.NodeName), v1.EventTypeWarning, "APIServerBehind", "%s", message)
	}
	return nil
}

// judge advances to the revision of a list, unless it is older than what is known. It returns what
// was known, and since when the API server has been behind it.
func (r *revision) judge(listed uint64) (known uint64, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known = r.newest
	if listed >= known {
		r.advance(listed)
		return known, r.since
	}
	now := r.options.Clock.Now()
	if r.since.IsZero() || now.Sub(r.refused) > interrupted {
		r.since = now
	}
	r.refused = now
	return known, r.since
}

// reached records the revision of an event or bookmark.
func (r *revision) reached(of string) {
	if seen, err := strconv.ParseUint(of, 10, 64); err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if seen > r.newest {
			r.advance(seen)
		}
	}
}

// advance sets the newest revision. The caller holds the lock.
func (r *revision) advance(to uint64) {
	r.newest, r.since = to, time.Time{}
	select {
	case r.moved <- struct{}{}:
	default: // already signaled
	}
}

// keep writes the newest revision until ctx ends, separately from the delivery of pods, which a
// disk that does not answer must not delay. A revision that could not be written is superseded by
// the next.
func (r *revision) keep(ctx context.Context) {
	if r.options.RevisionFile == "" {
		return
	}
	var failing bool
	write := func() {
		r.mu.Lock()
		newest := r.newest
		r.mu.Unlock()
		err := writeRevision(r.options.RevisionFile, newest)
		if err != nil && !failing {
			r.options.Logger.Error(err, "The revision of the API server could not be kept; after a restart an older list may be accepted")
		}
		failing = err != nil
	}
	for {
		select {
		case <-r.moved:
			write()
		case <-ctx.Done():
			select {
			case <-r.moved:
				write()
			default:
			}
			return
		}
	}
}

func writeRevision(file string, n uint64) error {
	return durable.WriteFile(file, []byte(strconv.FormatUint(n, 10)+"\n"))
}
