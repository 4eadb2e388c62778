package poddir

import (
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// stableAge is how long a folder must not have changed before its listing counts as
// complete: two changes in one tick of the file system's clock leave the same time.
const stableAge = time.Second

// Listing lists one folder again and again and reads it only if it has changed. It
// is safe for concurrent use.
type Listing struct {
	Path  string
	Clock clock.PassiveClock

	mu      sync.Mutex
	known   fs.FileInfo // of the folder as entries show it; nil: read it
	entries []fs.DirEntry
	reads   int // for tests
}

// Read returns the folder's entries.
func (l *Listing) Read() ([]fs.DirEntry, error) {
	l.mu.Lock()
	known, entries := l.known, l.entries
	l.mu.Unlock()
	// Stat before reading: the next call notices a change in between.
	info, err := os.Stat(l.Path)
	if err != nil {
		return nil, err
	}
	if known != nil && os.SameFile(known, info) && known.ModTime().Equal(info.ModTime()) {
		return slices.Clone(entries), nil
	}
	entries, err = os.ReadDir(l.Path)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known, l.entries = nil, slices.Clone(entries)
	l.reads++
	if l.Clock.Since(info.ModTime()) > stableAge {
		l.known = info
	}
	return entries, nil
}
