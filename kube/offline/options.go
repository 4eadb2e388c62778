package offline

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/seal"
)

// defaultMaxBytes has room for 110 pods with a full config map each, and some more.
const defaultMaxBytes = 256 << 20

// Options configures [Open]. Dir is required.
type Options struct {
	// Dir is the absolute folder of the files, of this node only. It is created if it is missing;
	// no other user may be able to change it.
	Dir string
	// Keys seal the files, newest first: the first one seals; what an older one sealed can be read,
	// and is sealed again with the first. With keys, an unsealed file is skipped. Nil means that
	// files are not sealed, and that anyone who can read the disk can read the secrets in them.
	Keys []Key
	// MaxBytes bounds the total size of the files. What exceeds it is not kept. 0 means 256 MiB.
	MaxBytes int64
	// Clock is the time source. Nil means the real clock.
	Clock clock.Clock
	// Logger receives failures, never content. Zero means silent.
	Logger logr.Logger
	// Meter makes the instruments in metrics.go. Nil means none.
	Meter metric.Meter
}

func (o *Options) complete() (seal.Keys, error) {
	var problems []error
	if !filepath.IsAbs(o.Dir) {
		problems = append(problems, fmt.Errorf("the folder Dir %q is not an absolute path", o.Dir))
	}
	if o.MaxBytes < 0 {
		problems = append(problems, errors.New("MaxBytes is negative"))
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	keys := make(seal.Keys, len(o.Keys))
	for i, k := range o.Keys {
		keys[i] = k.key
	}
	return keys, errors.Join(append(problems, keys.Check())...)
}

// Key seals the files of a cache. Its zero value is not a key. It is safe for concurrent use, and
// prints as its ID.
type Key struct{ key seal.Key }

// NewKey returns the key for a secret: 32 random bytes, as "openssl rand 32" makes them. It keeps a
// copy. Errors never quote the secret.
func NewKey(secret []byte) (Key, error) {
	k, err := seal.NewKey("offline cache", secret)
	return Key{k}, err
}

// ID names the key in files and messages: 16 hexadecimal digits that reveal nothing about the
// secret. It is empty for the zero value.
func (k Key) ID() string { return k.key.ID() }

// String returns the ID.
func (k Key) String() string { return k.ID() }

// GoString returns the ID.
func (k Key) GoString() string { return k.ID() }
