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
	key   []byte
	wants func(source string) bool
}

// NewOwnUIDs reads the node's key, or makes it. wants reports whether the pods of a source get
// UIDs of the node's own; nil: those of none do, and there is no key.
func NewOwnUIDs(path string, wants func(source string) bool) (*OwnUIDs, error) {
	if wants == nil {
		return &OwnUIDs{}, nil
	}
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, keySize)
		_, _ = rand.Read(key) // it never fails
		err = durable.WriteFile(path, key)
	}
	if err != nil {
		return &OwnUIDs{}, fmt.Errorf("the key of the pods' UIDs: %w", err)
	}
	if len(key) != keySize {
		return &OwnUIDs{}, fmt.Errorf("the key of the pods' UIDs in %s is damaged: put it back, or remove it, which gives those pods other UIDs and so starts them again", filepath.Clean(path))
	}
	return &OwnUIDs{key: key, wants: wants}, nil
}

// Wrap returns a source whose pods have UIDs of the node's own, or the source itself.
func (o *OwnUIDs) Wrap(s syncloop.Source) syncloop.Source {
	if o.wants == nil || !o.wants(s.Name()) {
		return s
	}
	return &renamed{s, o.key}
}

// uid is the UID of a pod: another one if its source, its name or the UID it came with is
// another one, and so if its content is, where that is made of the content (D1).
func uid(key []byte, source string, pod *v1.Pod) types.UID {
	h := hmac.New(sha256.New, key)
	for _, part := range [...]string{source, pod.Namespace, pod.Name, string(pod.UID)} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash takes everything
	}
	return types.UID(hex.EncodeToString(h.Sum(nil)[:16]))
}

// renamed is a source whose pods get other UIDs.
type renamed struct {
	syncloop.Source
	key []byte
}

var (
	_ syncloop.Preceded        = (*renamed)(nil)
	_ syncloop.HealthReporter  = (*renamed)(nil)
	_ syncloop.Undecided       = (*renamed)(nil)
	_ syncloop.ProblemReporter = (*renamed)(nil)
)

// Run delivers what the source delivers, under other UIDs.
func (s *renamed) Run(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) error {
	return s.Source.Run(ctx, func(own context.Context, pods []*v1.Pod) error {
		out := make([]*v1.Pod, 0, len(pods))
		for _, p := range pods {
			if p == nil || p.UID == "" {
				continue // the loop takes none of these
			}
			q := *p
			q.UID = uid(s.key, s.Name(), p)
			if p.Annotations[podinfo.AnnotationHash] == string(p.UID) { // D5
				q.Annotations = maps.Clone(p.Annotations)
				q.Annotations[podinfo.AnnotationHash] = string(q.UID)
			}
			out = append(out, &q)
		}
		return deliver(own, out)
	})
}

// Precedence is the source's.
func (s *renamed) Precedence() syncloop.Precedence {
	if p, ok := s.Source.(syncloop.Preceded); ok {
		return p.Precedence()
	}
	return syncloop.PrecedenceInProcess
}

// Health is the source's.
func (s *renamed) Health() syncloop.SourceHealth {
	if h, ok := s.Source.(syncloop.HealthReporter); ok {
		return h.Health()
	}
	return syncloop.SourceHealth{}
}

// Undecided is the source's.
func (s *renamed) Undecided() error {
	if u, ok := s.Source.(syncloop.Undecided); ok {
		return u.Undecided()
	}
	return nil
}

// Unreadable is the source's.
func (s *renamed) Unreadable() []problem.Problem {
	if r, ok := s.Source.(syncloop.ProblemReporter); ok {
		return r.Unreadable()
	}
	return nil
}
