package oomkills

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The bounds of a search for cgroups.
const (
	maxDepth   = 8
	maxFolders = 20_000
)

// hierarchy is where the kernel shows how many processes it has killed.
type hierarchy struct {
	top, file string
	// most is how many folders a search reads.
	most int
}

// examine finds the hierarchy below a folder such as /sys/fs/cgroup: that of version 1 if the
// folder has the memory controller. If it finds none, the folder in the result is empty.
func examine(root string) hierarchy {
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		if e.IsDir() && slices.Contains(strings.Split(e.Name(), ","), "memory") {
			return hierarchy{filepath.Join(root, e.Name()), "memory.oom_control", maxFolders}
		}
	}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return hierarchy{root, "memory.events", maxFolders}
	}
	return hierarchy{}
}

// kills reads how many processes of a cgroup were killed, false if it is gone or its kernel does not count.
func (h hierarchy) kills(path string) (int64, bool) {
	content, err := os.ReadFile(filepath.Join(path, h.file))
	if err != nil {
		return 0, false
	}
	return count(content)
}

// machine reads, from a file such as /proc/vmstat, how many processes the kernel has killed for lack of
// memory on the whole machine, wherever they belonged; false if the kernel does not count them.
func machine(vmstat string) (int64, bool) {
	content, err := os.ReadFile(vmstat)
	if err != nil {
		return 0, false
	}
	return count(content)
}

// count returns the number in the line oom_kill.
func count(content []byte) (int64, bool) {
	for line := range bytes.Lines(content) {
		if number, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("oom_kill ")); ok {
			n, err := strconv.ParseInt(string(number), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// errFound and errMany end a search early.
var (
	errFound = errors.New("all were found")
	errMany  = errors.New("there are too many folders")
)

// find looks for the cgroups of containers: folders whose names end with a container's ID, as in
// ID, cri-containerd-ID.scope or crio-ID. It returns their paths by ID, and whether it has looked
// everywhere. It does not look into the cgroup of a container that is wanted or known, which may nest as
// many as it likes, and into other folders that are named like one only after all others: the agent
// itself may run in a container.
func (h hierarchy) find(ids, known map[string]bool) (found map[string]string, complete bool) {
	s := search{ids: ids, known: known, found: map[string]string{}, left: h.most}
	if h.top == "" || len(ids) == 0 {
		return s.found, true
	}
	for s.later = []folder{{h.top, 0}}; len(s.later) > 0; {
		next := s.later[0]
		s.later = s.later[1:]
		if err := s.walk(next); err != nil {
			return s.found, errors.Is(err, errFound)
		}
	}
	return s.found, true
}

// search is one search for cgroups.
type search struct {
	ids, known map[string]bool
	found      map[string]string
	// left is how many more folders are read, later are those that come after all others.
	left  int
	later []folder
}

type folder struct {
	path  string
	depth int
}

// walk searches a folder and everything below it, except for what comes later.
func (s *search) walk(f folder) error {
	if s.left--; s.left < 0 {
		return errMany
	}
	if f.depth > maxDepth {
		return nil
	}
	entries, _ := os.ReadDir(f.path) // a folder that has vanished meanwhile has nothing
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		below, id := folder{filepath.Join(f.path, e.Name()), f.depth + 1}, idOf(e.Name())
		switch {
		case s.ids[id]:
			if s.found[id] = below.path; len(s.found) == len(s.ids) {
				return errFound
			}
		case s.known[id]:
		case isID(id):
			s.later = append(s.later, below)
		default:
			if err := s.walk(below); err != nil {
				return err
			}
		}
	}
	return nil
}

// isID reports whether this looks like a container's ID, as runtimes make them.
func isID(id string) bool { return len(id) >= minID && strings.Trim(id, "0123456789abcdef") == "" }

// idOf returns the ID in the name of a container's cgroup. The cgroup of CRI-O's monitor is not the container's.
func idOf(name string) string {
	name = strings.TrimSuffix(name, ".scope")
	if strings.Contains(name, "conmon-") {
		return ""
	}
	return name[strings.LastIndexAny(name, "-:")+1:]
}
