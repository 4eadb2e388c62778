package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// trustAge is how old the last change of a file must be when it is read, so that
// its timestamps prove that it has not changed since: file systems store times
// coarsely.
const trustAge = 2 * time.Second

// manifest holds what is known about one file.
type manifest struct {
	path string
	// info describes the file as it was read; nil means that the next scan reads it again.
	info   os.FileInfo
	readAt time.Time

	pod *v1.Pod // last good pod, nil if there never was one
	err error   // the problem of the newest content, or a warning
	// changing: the file was written to while it was read.
	changing bool
}

// scan reads the files that have changed and returns the full set. again means that a
// file was being written and needs another look soon. An error means that the folder
// itself could not be read, and no change is known (SRC2).
func (f *File) scan(ctx context.Context) (set []*v1.Pod, again bool, err error) {
	now := f.options.Clock.Now()
	f.mu.Lock()
	f.health.Pending = now
	f.mu.Unlock()
	paths, single, err := f.list()
	if err != nil {
		f.publish(ctx, now, err, nil)
		return nil, false, err
	}
	paths, unread := f.choose(paths, single)
	present := make(map[string]bool, len(paths))
	manifests := make([]*manifest, 0, len(paths))
	keep := single || !f.options.ForgetBroken
	for _, path := range paths {
		m := f.read(path, now, keep)
		if m == nil {
			continue // removed since it was listed
		}
		present[path] = true
		manifests = append(manifests, m)
		again = again || m.changing
	}
	if err := f.noFolder(single, manifests); err != nil {
		f.publish(ctx, now, err, nil)
		return nil, false, err
	}
	for path := range f.files {
		if !present[path] {
			delete(f.files, path)
		}
	}
	set, problems := merge(manifests)
	held := undecided(manifests, keep)
	if unread != nil {
		problems = append(problems, Problem{Path: f.path, Err: unread})
		held = cmp.Or(held, unread)
	}
	f.mu.Lock()
	f.undecided = held
	f.mu.Unlock()
	f.publish(ctx, now, nil, problems)
	f.metrics.scanned(len(set), kept(problems), len(problems))
	return set, again, nil
}

// noFolder returns an error if a file from which no pod can be read has replaced the
// folder: that does not mean that there are no pods (F3, SRC4).
func (f *File) noFolder(single bool, manifests []*manifest) error {
	if !single || len(manifests) == 0 || manifests[0].pod != nil || len(f.files) == 1 {
		return nil
	}
	return fmt.Errorf("%s, which was a folder, is a file that cannot be read: %w", f.path, cmp.Or(manifests[0].err, errChanging))
}

// undecided returns an error about the first manifest that may define an unknown pod.
// keep says that a broken manifest keeps its pod; one being written always does (F8).
func undecided(manifests []*manifest, keep bool) error {
	for _, m := range manifests {
		switch {
		case m.pod != nil:
		case m.err == nil: // it was being written at every attempt to read it
			return fmt.Errorf("manifest %s has not been read yet: %w", m.path, errChanging)
		case keep && !errors.Is(m.err, ErrSkipped) && !errors.Is(m.err, ErrOtherKind):
			return fmt.Errorf("manifest %s has been unreadable since the start: %w", m.path, m.err)
		}
	}
	return nil
}

// kept counts the pods that stay although their manifest cannot be read.
func kept(problems []Problem) (n int) {
	for _, p := range problems {
		if p.Pod != nil && !p.warning() {
			n++
		}
	}
	return n
}

// list returns the paths to read, in name order (F2); single says that the source
// is one file. A missing path is an empty source (SRC3), but a link to nothing is an
// error: what it leads to may not be mounted yet (SRC4).
func (f *File) list() (paths []string, single bool, err error) {
	info, err := stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errLinkToNothing):
		f.noteFolder(false)
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case info.Mode().IsRegular():
		f.folder = false
		f.noteFolder(true)
		return []string{f.path}, true, nil
	case !info.IsDir():
		return nil, false, fmt.Errorf("%s: %w, nor a folder, but a %s", f.path, ErrSkipped, kindOf(info.Mode()))
	}
	f.folder = true
	f.noteFolder(true)
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, false, err
	}
	for _, e := range entries {
		if !ignored(e.Name()) {
			paths = append(paths, filepath.Join(f.path, e.Name()))
		}
	}
	return paths, false, nil
}

// noteFolder keeps since when a folder that was there is missing. All its pods stop (SRC3), and nothing
// else would say why. A single file that goes is how its pod is stopped, and a folder need not exist yet.
func (f *File) noteFolder(there bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case there:
		f.goneSince = time.Time{}
	case f.folder && f.goneSince.IsZero():
		f.goneSince = f.options.Clock.Now()
	}
}

// choose picks the paths to read if the folder has too many: first those of known pods, so that
// no pod is lost, then those read before, then the others by name (SRC6). It returns them in name
// order. The error names the first path left out.
func (f *File) choose(paths []string, single bool) (chosen []string, unread error) {
	most := f.options.MaxFiles
	if single || len(paths) <= most {
		return paths, nil
	}
	rank := func(path string) int {
		switch m := f.files[path]; {
		case m == nil:
			return 2
		case m.pod == nil:
			return 1
		}
		return 0
	}
	ranked := slices.Clone(paths)
	slices.SortStableFunc(ranked, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	chosen = ranked[:most]
	left := filepath.Base(slices.Min(ranked[most:]))
	slices.Sort(chosen)
	return chosen, fmt.Errorf("%w files: the folder has more than %d, so that %s and perhaps others are not read; move files elsewhere or raise FileOptions.MaxFiles",
		ErrTooMany, most, left)
}

// ignored reports whether a name in the folder is a hidden file, or a copy left by
// an editor, which would define its pod a second time.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~")
}

// read looks at the file at path and returns what is known about it, nil if it
// does not exist.
func (f *File) read(path string, now time.Time, keep bool) *manifest {
	info, err := stat(path)
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errLinkToNothing) {
		return nil
	}
	m := f.files[path]
	if m == nil {
		m = &manifest{path: path}
		f.files[path] = m
	}
	if err == nil && m.unchanged(info) {
		return m
	}
	m.changing = false
	if err == nil {
		err = readable(info)
	}
	var data []byte
	if err == nil {
		data, m.info, err = load(path)
	}
	if errors.Is(err, errChanging) {
		m.changing, m.info = true, nil
		return m // what was known before still holds (F8)
	}
	m.readAt = now
	if err != nil {
		m.info = nil
		m.fail(err, keep)
		return m
	}
	pod, err := f.decoder.decode(data, "file:"+path)
	if pod == nil {
		m.fail(err, keep)
		return m
	}
	m.pod, m.err = pod, err
	return m
}

// errLinkToNothing: a path exists, but not what it leads to.
var errLinkToNothing = errors.New("it is a link to nothing")

// stat is os.Stat. Its error is errLinkToNothing, too, if the path is a link whose target does not exist.
func stat(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, linkErr := os.Lstat(path); linkErr == nil {
			err = fmt.Errorf("%w: %w", errLinkToNothing, err)
		}
	}
	return info, err
}

// fail records that the newest content is unusable.
func (m *manifest) fail(err error, keep bool) {
	m.err = err
	if !keep {
		m.pod = nil
	}
}

// unchanged reports whether info proves that the file has not changed since it was read.
func (m *manifest) unchanged(info os.FileInfo) bool {
	return m.info != nil && sameVersion(m.info, info) && m.readAt.Sub(info.ModTime()) > trustAge
}

// sameVersion reports whether two looks at a path saw the same content.
func sameVersion(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

// errChanging says that a file was written to while it was read.
var errChanging = errors.New("it is being written")

// load reads a manifest. It never blocks on a file that is not regular, and reads
// no more than allowed.
func load(path string) ([]byte, os.FileInfo, error) {
	// Without O_NONBLOCK opening a FIFO would wait for its writer.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	return loadFile(file, maxManifestSize, nil)
}

// loadFile reads an open file of at most limit bytes, unless check, which may be nil, refuses it.
func loadFile(file *os.File, limit int64, check func(os.FileInfo) error) ([]byte, os.FileInfo, error) {
	before, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if err := regular(before, limit); err != nil { // it may have been replaced
		return nil, nil, err
	}
	if check != nil {
		if err := check(before); err != nil {
			return nil, nil, err
		}
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, nil, err
	}
	if int64(len(data)) > limit {
		return nil, nil, errChanging // it was smaller a moment ago
	}
	after, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !sameVersion(before, after) {
		return nil, nil, errChanging
	}
	return data, after, nil
}

// readable returns the reason why a file must not be read.
func readable(info os.FileInfo) error { return regular(info, maxManifestSize) }

// regular refuses anything but a regular file of at most limit bytes.
func regular(info os.FileInfo, limit int64) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w but a %s", ErrSkipped, kindOf(info.Mode()))
	}
	if info.Size() > limit {
		return fmt.Errorf("%w: more than %d MiB", ErrTooLarge, limit>>20) // without its size, so that a file that grows is reported once
	}
	return nil
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeNamedPipe != 0:
		return "FIFO"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	default:
		return "special file"
	}
}

// merge returns the pods of all manifests, and their problems. If two pods have one name,
// the later manifest wins (F5); the other pod returns as soon as the winner goes, because
// every scan starts from all files. If two pods have one UID, the set has both: the loop
// knows whose UID it is, even after a restart (PS6).
func merge(manifests []*manifest) (set []*v1.Pod, problems []Problem) {
	names := map[types.NamespacedName]*manifest{}
	lost := map[*manifest]*manifest{}
	for i := len(manifests) - 1; i >= 0; i-- {
		m := manifests[i]
		if m.pod == nil {
			continue
		}
		name := types.NamespacedName{Namespace: m.pod.Namespace, Name: m.pod.Name}
		if winner := names[name]; winner != nil {
			lost[m] = winner
			continue
		}
		names[name] = m
	}
	for _, m := range manifests {
		switch winner := lost[m]; {
		case winner != nil:
			err := fmt.Errorf("%w: pod %s/%s is taken from %s", ErrDuplicate, m.pod.Namespace, m.pod.Name, winner.path)
			problems = append(problems, Problem{Path: m.path, Err: both(m.err, err)})
			continue
		case m.err != nil:
			problems = append(problems, Problem{Path: m.path, Pod: m.pod, Err: m.err})
		}
		if m.pod != nil {
			set = append(set, m.pod)
		}
	}
	return set, problems
}
