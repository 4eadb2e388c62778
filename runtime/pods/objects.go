package pods

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
)

// ObjectGetter reads the API objects that pods refer to by name: config maps and
// secrets for environments and volumes, secrets with pull credentials. The caller
// supplies it: a folder of manifests, a cache of an API server or a vault.
//
// Both methods are called from many goroutines at once, may block, and must
// return soon after ctx ends. They are called once per container start and
// object, so a slow source should keep what it read. The objects stay the
// getter's and are only read; it must not change them later.
//
// If an object does not exist, the error must match [runtime.ErrNotFound], wrapped
// or not; the errors of Kubernetes clients are understood too. A reference marked
// optional is then skipped. Every other error holds the container back until a
// later sync. Errors appear in waiting messages and events: they must not quote the
// content of a secret.
type ObjectGetter interface {
	GetConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
	GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// ObjectWatcher is an optional ability of an [ObjectGetter]: it tells an engine what changed,
// so that the pods that refer to it look again at once rather than within [Options.ObjectRetry]
// or with their next sync.
type ObjectWatcher interface {
	// Run watches until ctx ends, and returns soon after. It calls changed, which does not block, for
	// each object that changed, appeared or disappeared; extra calls do no harm. An engine calls Run
	// once; after an error or a panic, again in 1 s, then with pauses that double up to 20 s.
	Run(ctx context.Context, changed func(o podinfo.Object)) error
}

// defaultObjectRetry is the kubelet's pace.
const defaultObjectRetry = 10 * time.Second

// waitError is why a pod waits for something that others make: a config map, a secret, a
// volume, a runtime class or the list of services. Its worker looks again soon (IN15).
type waitError struct {
	error
	within time.Duration
}

func (e waitError) Unwrap() error { return e.error }

// RetryWithin bounds the pause before the next attempt.
func (e waitError) RetryWithin() time.Duration { return e.within }

func (m *Manager) waits(err error) error { return waitError{err, m.options.ObjectRetry} }
