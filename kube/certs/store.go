package certs

import (
	"cmp"
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/privatedir"
)

// kept is how many pairs stay on disk: the newest may not be valid yet.
const kept = 2

// store keeps pairs on disk. A file is written as a whole, so that a crash between any two steps
// leaves intact pairs and, at worst, a link to the pair before the newest.
type store struct {
	dir, name string
}

const extension = ".pem"

func (s store) current() string { return s.name + "-current" + extension }
func (s store) pending() string { return s.name + "-pending.key" }

// open creates the folder if it is missing, and checks that only its user can change it.
func (s store) open() error {
	if err := privatedir.Check(s.dir); err != nil {
		return err
	}
	return durable.MakeFolder(s.dir)
}

// within calls do in the folder.
func (s store) within(do func(root *os.Root) error) error {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(do(root), root.Close())
}

// load reads all pairs, newest first, and repairs the link. What cannot be read is logged and left alone.
func (s store) load(logger logr.Logger) (pairs []*tls.Certificate, err error) {
	err = s.within(func(root *os.Root) error {
		s.sweep(root)
		names, err := s.names(root)
		files := map[*tls.Certificate]string{}
		for _, name := range names {
			pair, problem := readPair(root, name)
			switch {
			case problem != nil:
				logger.Error(problem, "A certificate on disk is left out", "file", name)
			case !slices.ContainsFunc(pairs, func(p *tls.Certificate) bool { return same(p, pair) }):
				pairs, files[pair] = append(pairs, pair), name
			}
		}
		slices.SortStableFunc(pairs, compare)
		if len(pairs) > 0 && files[pairs[0]] != s.current() {
			if problem := s.link(root, files[pairs[0]]); problem != nil {
				logger.Error(problem, "The link to the newest certificate is not mended", "file", s.current())
			}
		}
		return err
	})
	return pairs, err
}

// sweep removes files that a crash left half written. A failure is harmless.
func (s store) sweep(root *os.Root) {
	entries, _ := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), s.name+"-") && strings.HasSuffix(e.Name(), durable.Suffix) {
			_ = root.Remove(e.Name())
		}
	}
}

// names returns the files with pairs; the link comes last, and matters only if it leads to a file
// with another name.
func (s store) names(root *os.Root) (names []string, err error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), s.name+"-") && strings.HasSuffix(e.Name(), extension) && e.Name() != s.current() {
			names = append(names, e.Name())
		}
	}
	if _, problem := root.Stat(s.current()); problem == nil {
		names = append(names, s.current())
	}
	return names, err
}

func readPair(root *os.Root, name string) (*tls.Certificate, error) {
	content, err := root.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parsePair(content)
}

// answers returns what a pair on disk was requested for, empty if that is not known.
func (s store) answers(pair *tls.Certificate) (want string) {
	_ = s.within(func(root *os.Root) error {
		names, err := s.names(root)
		for _, name := range names {
			content, unread := root.ReadFile(name)
			if p, wrong := parsePair(content); unread == nil && wrong == nil && same(p, pair) {
				want = cmp.Or(want, labelOf(content))
			}
		}
		return err
	})
	return want
}

// save stores a pair and points the link to it. It removes pairs older than the one before it.
func (s store) save(pair *tls.Certificate, content []byte, now time.Time) error {
	sum := sha256.Sum256(pair.Certificate[0])
	name := fmt.Sprintf("%s-%s-%s%s", s.name, now.UTC().Format("2006-01-02-15-04-05"), hex.EncodeToString(sum[:4]), extension)
	return s.within(func(root *os.Root) error {
		if err := durable.Write(root, name, content); err != nil {
			return err
		}
		if err := s.link(root, name); err != nil {
			return err
		}
		return s.prune(root)
	})
}

// link points the link to a file, atomically.
func (s store) link(root *os.Root, name string) error {
	if at, err := root.Readlink(s.current()); err == nil && at == name {
		return nil
	}
	temporary := s.current() + durable.Suffix
	if err := root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := root.Symlink(name, temporary); err != nil {
		return err
	}
	return root.Rename(temporary, s.current())
}

// prune removes readable pairs, except the newest ones and the link's target.
func (s store) prune(root *os.Root) error {
	type file struct {
		name string
		pair *tls.Certificate
	}
	var files []file
	names, err := s.names(root)
	problems := []error{err}
	for _, name := range names {
		if pair, err := readPair(root, name); err == nil && name != s.current() {
			files = append(files, file{name, pair})
		}
	}
	slices.SortStableFunc(files, func(a, b file) int { return compare(a.pair, b.pair) })
	at, _ := root.Readlink(s.current())
	for i, f := range files {
		if i >= kept && f.name != at {
			problems = append(problems, durable.Remove(root, f.name))
		}
	}
	return errors.Join(problems...)
}

// key reads the key of a request that has no answer yet, nil for none.
func (s store) key() (key crypto.Signer, content []byte) {
	_ = s.within(func(root *os.Root) (err error) {
		if content, err = root.ReadFile(s.pending()); err == nil {
			key, err = parseKey(content)
		}
		return err
	})
	return key, content
}

func (s store) saveKey(content []byte) error {
	return s.within(func(root *os.Root) error { return durable.Write(root, s.pending(), content) })
}

func (s store) dropKey() error {
	return s.within(func(root *os.Root) error { return durable.Remove(root, s.pending()) })
}
