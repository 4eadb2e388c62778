package recovery

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/syncloop"
)

// keySize is the length of the node's key in bytes.
const keySize = 32

// OwnUIDs gives the pods of some sources UIDs that cannot be chosen or predicted (PS8).
type OwnUIDs struct {
	path  string
	wants func(source string) bool

	mu  sync.Mutex
	key []byte // nil: no source has needed it yet
}

// NewOwnUIDs returns an OwnUIDs that uses the key in a file, which is read or created for the first
// source that needs it. wants reports whether the pods of a source get the node's own UIDs.
func NewOwnUIDs(path string, wants func(source string) bool) *OwnUIDs {
	return &OwnUIDs{path: path, wants: wants}
}

// Wrap returns a source whose pods have the node's own UIDs, or the source itself if it needs none.
// Without a key it returns the source and an error.
func (o *OwnUIDs) Wrap(s syncloop.Source) (syncloop.Source, error) {
	name := s.Name()
	if !o.wants(name) {
		return s, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.key == nil {
		key, err := nodeKey(o.path)
		if err != nil {
			return s, err
		}
		o.key = key
	}
	return &renamed{s, name, o.key}, nil
}

// nodeKey reads the node's key, or creates it.
func nodeKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, keySize)
		_, _ = rand.Read(key) // it never fails
		err = durable.WriteFile(path, key)
	}
	if err != nil {
		return nil, fmt.Errorf("the key of the pods' UIDs: %w", err)
	}
	if len(key) != keySize {
		return nil, fmt.Errorf("the key of the pods' UIDs in %s is damaged: put it back, or remove it, which gives those pods other UIDs and so starts them again", filepath.Clean(path))
	}
	return key, nil
}

// uid returns the UID of a pod: a different one for every source, name and original UID, and also
// for every content if the original UID is made from the content (D1).
func uid(key []byte, source string, pod *v1.Pod) types.UID {
	h := hmac.New(sha256.New, key)
	for _, part := range [...]string{source, pod.Namespace, pod.Name, string(pod.UID)} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // writes to a hash never fail
	}
	return types.UID(hex.EncodeToString(h.Sum(nil)[:16]))
}

// renamed is a source whose pods get other UIDs.
type renamed struct {
	syncloop.Source
	name string // asked for once, see source
	key  []byte
}

var (
	_ syncloop.Preceded        = (*renamed)(nil)
	_ syncloop.HealthReporter  = (*renamed)(nil)
	_ syncloop.Undecided       = (*renamed)(nil)
	_ syncloop.ProblemReporter = (*renamed)(nil)
)

// Name returns that of the source.
func (s *renamed) Name() string { return s.name }

// Run delivers what the source delivers, under other UIDs.
func (s *renamed) Run(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) error {
	return s.Source.Run(ctx, func(own context.Context, pods []*v1.Pod) error {
		out := make([]*v1.Pod, 0, len(pods))
		for _, p := range pods {
			if p == nil {
				continue
			}
			if p.UID == "" {
				out = append(out, p) // the loop leaves it out, and says so (M9)
				continue
			}
			q := *p
			q.UID = uid(s.key, s.name, p)
			if p.Annotations[podinfo.AnnotationHash] == string(p.UID) { // D5
				q.Annotations = maps.Clone(p.Annotations)
				q.Annotations[podinfo.AnnotationHash] = string(q.UID)
			}
			out = append(out, &q)
		}
		return deliver(own, out)
	})
}

// Precedence returns that of the source.
func (s *renamed) Precedence() syncloop.Precedence {
	if p, ok := s.Source.(syncloop.Preceded); ok {
		return p.Precedence()
	}
	return syncloop.PrecedenceInProcess
}

// Health returns that of the source.
func (s *renamed) Health() syncloop.SourceHealth {
	if h, ok := s.Source.(syncloop.HealthReporter); ok {
		return h.Health()
	}
	return syncloop.SourceHealth{}
}

// Undecided returns that of the source.
func (s *renamed) Undecided() error {
	if u, ok := s.Source.(syncloop.Undecided); ok {
		return u.Undecided()
	}
	return nil
}

// Unreadable returns that of the source.
func (s *renamed) Unreadable() []problem.Problem {
	if r, ok := s.Source.(syncloop.ProblemReporter); ok {
		return r.Unreadable()
	}
	return nil
}
