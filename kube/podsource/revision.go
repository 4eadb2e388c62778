package podsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// errOlder: a list is older than what this node has acted on already.
var errOlder = errors.New("the API server's list is older than what was known")

// revision is the newest that was seen. Revisions of one API server can be compared as
// numbers; one that is none is never older.
type revision struct {
	options Options
	// moved has room for one: the newest revision is not on disk yet.
	moved chan struct{}

	mu     sync.Mutex
	newest uint64
	// since is when the API server was first seen to be behind; zero if it is not.
	since time.Time
}

// loadRevision reads the file of the last run, if there is one.
func loadRevision(o Options) (*revision, error) {
	r := &revision{options: o, moved: make(chan struct{}, 1)}
	if o.RevisionFile == "" {
		return r, nil
	}
	content, err := os.ReadFile(o.RevisionFile)
	if errors.Is(err, fs.ErrNotExist) {
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

// accept decides whether a list of that revision may become the set.
func (r *revision) accept(of string) error {
	listed, err := strconv.ParseUint(of, 10, 64)
	if err != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if listed >= r.newest {
		r.advance(listed)
		return nil
	}
	now := r.options.Clock.Now()
	if r.since.IsZero() {
		r.since = now
	}
	if now.Sub(r.since) < patience {
		return fmt.Errorf("%w: its revision is %d, known is %d; it is accepted if that stays so for %s", errOlder, listed, r.newest, patience)
	}
	message := fmt.Sprintf("the API server has been at revision %d for %s, and this node had seen %d: it was restored from a backup, or is another one. Its pods are the ones that count from now on", listed, patience, r.newest)
	r.options.Logger.Info("The API server is behind what this node has seen", "revision", listed, "known", r.newest)
	r.options.Events.Eventf(podinfo.NodeReference(r.options.NodeName), v1.EventTypeWarning, "APIServerBehind", "%s", message)
	r.advance(listed)
	return nil
}

// reached notes the revision of an event or bookmark.
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
	default: // it is about to be written
	}
}

// keep writes the newest revision until ctx ends, beside the delivery of pods: a disk that
// does not answer holds none of them up. What could not be written is written with the
// next.
func (r *revision) keep(ctx context.Context) {
	if r.options.RevisionFile == "" {
		return
	}
	var failing bool
	for {
		select {
		case <-r.moved:
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		newest := r.newest
		r.mu.Unlock()
		err := writeRevision(r.options.RevisionFile, newest)
		if err != nil && !failing {
			r.options.Logger.Error(err, "The revision of the API server could not be kept; after a restart an older list may be accepted")
		}
		failing = err != nil
	}
}

func writeRevision(file string, n uint64) error {
	folder := filepath.Dir(file)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	return durable.WriteFile(file, []byte(strconv.FormatUint(n, 10)+"\n"))
}
