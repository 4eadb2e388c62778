package mirror

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Errors of a [Client] that the reconciler distinguishes, with errors.Is.
var (
	// ErrExists: Create found a pod of this name.
	ErrExists = errors.New("a pod of this name exists already")
	// ErrNotFound: there is no pod of this name.
	ErrNotFound = errors.New("there is no pod of this name")
	// ErrPrecondition: the pod of this name has another UID.
	ErrPrecondition = errors.New("the pod of this name has another UID")
)

// Client is the part of an API that mirror pods need. One goroutine at a time calls its
// methods, which may block and should end with ctx.
type Client interface {
	// Create creates a pod as given; the API gives it a UID. The pod belongs to the
	// client. Create fails with [ErrExists] if the name is taken.
	Create(ctx context.Context, pod *v1.Pod) error
	// Get returns the pod of a name, or [ErrNotFound]. The pod is read-only.
	Get(ctx context.Context, namespace, name string) (*v1.Pod, error)
	// Delete removes the pod of a name without grace; if uid is not empty, only the
	// pod with that UID. It fails with [ErrNotFound] or [ErrPrecondition].
	Delete(ctx context.Context, namespace, name string, uid types.UID) error
}

// NodeGetter returns the node object that owns the mirror pods, nil while it is not
// known. It must not block.
type NodeGetter func() *v1.Node
