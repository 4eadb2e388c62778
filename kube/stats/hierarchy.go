package stats

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// hierarchy reads cgroups of either version. Its only state is a buffer: use it from one goroutine.
type hierarchy struct {
	root string
	// trees are the folders of the controllers below root on version 1; nil on version 2.
	trees map[string]string
	files reader
}

// examine detects which version the root holds. A machine without cgroups has none to read.
func examine(root string) *hierarchy {
	h := &hierarchy{root: root}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return h
	}
	h.trees = map[string]string{}
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		if !e.IsDir() { // a link is another name of a tree that exists as well
			continue
		}
		for controller := range strings.SplitSeq(e.Name(), ",") {
			h.trees[controller] = e.Name()
		}
	}
	return h
}

func (h *hierarchy) unified() bool { return h.trees == nil }

// read returns a file of a cgroup, valid until the next call; false if it does not exist.
func (h *hierarchy) read(controller, cgroup, file string) ([]byte, bool) {
	dir := h.root
	if !h.unified() {
		tree, ok := h.trees[controller]
		if !ok {
			return nil, false
		}
		dir = h.root + "/" + tree
	}
	text, err := h.files.read(dir+"/"+cgroup+"/"+file, true)
	return text, err == nil
}

// maxDepth and maxFolders bound the search for cgroups.
const (
	maxDepth   = 8
	maxFolders = 20_000
)

// find looks for the cgroups of containers: folders that are named after their IDs, in the form
// that runtimes use with either cgroup driver. IDs without a cgroup are not in the result. It returns false
// if the search left out a folder that could not be read, which may hold those that are missing.
func (h *hierarchy) find(ids map[string]bool) (found map[string]string, complete bool) {
	top := h.root
	if !h.unified() {
		tree, ok := h.trees["memory"]
		if !ok {
			return nil, true
		}
		top = filepath.Join(h.root, tree)
	}
	s := search{top: top, ids: ids, found: make(map[string]string, len(ids))}
	_ = s.walk(".", 0)
	return s.found, !s.unread
}

// search is one walk through a tree of cgroups.
type search struct {
	top     string
	ids     map[string]bool
	found   map[string]string
	folders int
	unread  bool // a folder could not be read
}

var errFoundAll = errors.New("all are found")

func (s *search) walk(at string, depth int) error {
	if s.folders++; depth > maxDepth || s.folders > maxFolders {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(s.top, at))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) { // one that is gone, or another user's, shows no entries next time either
		s.unread = true
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		path := filepath.Join(at, e.Name())
		if id := s.idOf(e.Name()); id != "" {
			if s.found[id] == "" {
				s.found[id] = path
			}
			if len(s.found) == len(s.ids) {
				return errFoundAll
			}
			continue // a container's inner cgroups are part of it
		}
		if err := s.walk(path, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// idOf returns the ID in the name of a cgroup: ID, PREFIX-ID or PREFIX-ID.scope; empty if it is none of
// those wanted. The cgroup of a runtime's monitor process does not count as the container's.
func (s *search) idOf(name string) string {
	name = strings.TrimSuffix(name, ".scope")
	if strings.Contains(name, "conmon-") {
		return ""
	}
	for _, id := range []string{name, name[strings.LastIndexAny(name, "-:")+1:]} {
		if s.ids[id] {
			return id
		}
	}
	return ""
}

// podCgroup returns the cgroup of the pod that a container's cgroup is in, empty if the pod has no
// cgroup of its own.
func podCgroup(container, uid string) string {
	dir := filepath.Dir(container)
	name := strings.TrimSuffix(filepath.Base(dir), ".slice")
	if strings.HasSuffix(name, "pod"+uid) || strings.HasSuffix(name, "pod"+strings.ReplaceAll(uid, "-", "_")) {
		return dir
	}
	return ""
}
