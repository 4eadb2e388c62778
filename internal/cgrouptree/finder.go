package cgrouptree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/backoff"
)

const (
	// maxDepth and maxFolders bound a search.
	maxDepth   = 8
	maxFolders = 20_000
	// firstPause and maxPause are the pauses after searches that were too long to be finished.
	firstPause = 10 * time.Second
	maxPause   = 5 * time.Minute
	// MinID is the least length of what looks like a container's ID: a shorter name may be that of any cgroup.
	MinID = 32
)

// Finder finds the cgroups of containers. It is safe for concurrent use.
type Finder struct {
	// Top is the tree that is searched. If it is empty, there is nothing to find.
	Top string
	// Most is how many folders a search reads at most.
	Most  int
	clock clock.PassiveClock

	mu sync.Mutex
	// ended is when the last search ended, pause how long no other one begins after it.
	ended time.Time
	pause time.Duration
}

// NewFinder returns a finder for a tree.
func NewFinder(top string, clock clock.PassiveClock) *Finder {
	return &Finder{Top: top, Most: maxFolders, clock: clock}
}

// errFound and errMany end a search early.
var (
	errFound = errors.New("all were found")
	errMany  = errors.New("there are too many folders")
)

// Find looks for the cgroups of containers: folders that are named ID, PREFIX-ID or PREFIX-ID.scope. It returns their paths below
// Top by ID, and false if others may be where it has not looked: in a folder that could not be read, or behind too many of them.
// After too many it pauses, and finds nothing meanwhile: the next search costs as much, and may not get further.
// It does not look into the cgroup of a container that is wanted or known, which may nest as many as it likes, and into other
// folders that are named like one only after all others: the agent itself may run in a container.
func (f *Finder) Find(wanted, known map[string]bool) (found map[string]string, complete bool) {
	if f.Top == "" || len(wanted) == 0 {
		return nil, true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clock.Since(f.ended) < f.pause {
		return nil, false
	}
	s := search{top: f.Top, wanted: wanted, known: known, found: make(map[string]string, len(wanted)), left: f.Most}
	err := s.run()
	f.ended = f.clock.Now()
	if f.pause = backoff.Next(firstPause, maxPause, f.pause); !errors.Is(err, errMany) {
		f.pause = 0
	}
	return s.found, errors.Is(err, errFound) || err == nil && !s.unread
}

// search is one search for cgroups.
type search struct {
	top           string
	wanted, known map[string]bool
	found         map[string]string
	// left is how many more folders are read, later are those that come after all others.
	left   int
	later  []folder
	unread bool // a folder could not be read
}

type folder struct {
	path  string
	depth int
}

func (s *search) run() error {
	for s.later = []folder{{".", 0}}; len(s.later) > 0; {
		next := s.later[0]
		s.later = s.later[1:]
		if err := s.walk(next); err != nil {
			return err
		}
	}
	return nil
}

// walk searches a folder and everything below it, except for what comes later.
func (s *search) walk(f folder) error {
	if f.depth > maxDepth {
		return nil
	}
	if s.left--; s.left < 0 {
		return errMany
	}
	entries, err := os.ReadDir(filepath.Join(s.top, f.path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) { // one that is gone, or another user's, shows no entries next time either
		s.unread = true
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		below, id := folder{filepath.Join(f.path, e.Name()), f.depth + 1}, s.idOf(e.Name())
		switch {
		case s.wanted[id]:
			if s.found[id] == "" {
				s.found[id] = below.path
			}
			if len(s.found) == len(s.wanted) {
				return errFound
			}
		case s.known[id]:
		case len(id) >= MinID && strings.Trim(id, "0123456789abcdef") == "": // as runtimes make IDs
			s.later = append(s.later, below)
		default:
			if err := s.walk(below); err != nil {
				return err
			}
		}
	}
	return nil
}

// idOf returns the ID in the name of a container's cgroup. The cgroup of CRI-O's monitor is not the container's.
func (s *search) idOf(name string) string {
	name = strings.TrimSuffix(name, ".scope")
	switch {
	case strings.Contains(name, "conmon-"):
		return ""
	case s.wanted[name], s.known[name]: // an ID of several words
		return name
	}
	return name[strings.LastIndexAny(name, "-:")+1:]
}
