package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// Getter reads objects.
type Getter interface {
	GetConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
	GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// Reader reads objects of one namespace and remembers them, so that all values
// of one object come from the same reading. It is not safe for concurrent use.
type Reader struct {
	source     Getter
	namespace  string
	configMaps map[string]reading[*v1.ConfigMap]
	secrets    map[string]reading[*v1.Secret]
}

type reading[T any] struct {
	object T
	err    error
}

// NewReader returns a reader of a namespace. Without a source no object exists.
func NewReader(source Getter, namespace string) *Reader {
	return &Reader{
		source: source, namespace: namespace,
		configMaps: map[string]reading[*v1.ConfigMap]{}, secrets: map[string]reading[*v1.Secret]{},
	}
}

// ConfigMap returns a config map; [IsNotFound] reports whether an error means
// that it does not exist.
func (r *Reader) ConfigMap(ctx context.Context, name string) (*v1.ConfigMap, error) {
	if known, ok := r.configMaps[name]; ok {
		return known.object, known.err
	}
	if r.source == nil {
		return nil, noSource("config map", r.namespace, name)
	}
	object, err := r.source.GetConfigMap(ctx, r.namespace, name)
	if err == nil && object == nil {
		err = runtime.ErrNotFound
	}
	known := reading[*v1.ConfigMap]{object, describe("config map", r.namespace, name, err)}
	r.configMaps[name] = known
	return known.object, known.err
}

// Secret returns a secret; [IsNotFound] reports whether an error means that it
// does not exist.
func (r *Reader) Secret(ctx context.Context, name string) (*v1.Secret, error) {
	if known, ok := r.secrets[name]; ok {
		return known.object, known.err
	}
	if r.source == nil {
		return nil, noSource("secret", r.namespace, name)
	}
	object, err := r.source.GetSecret(ctx, r.namespace, name)
	if err == nil && object == nil {
		err = runtime.ErrNotFound
	}
	known := reading[*v1.Secret]{object, describe("secret", r.namespace, name, err)}
	r.secrets[name] = known
	return known.object, known.err
}

func noSource(kind, namespace, name string) error {
	return fmt.Errorf("%s %s/%s: %w: no source of config maps and secrets is configured", kind, namespace, name, runtime.ErrNotFound)
}

func describe(kind, namespace, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case IsNotFound(err):
		return fmt.Errorf("%s %s/%s: %w", kind, namespace, name, runtime.ErrNotFound)
	}
	return fmt.Errorf("%s %s/%s: %w", kind, namespace, name, err)
}

// IsNotFound reports whether err says that an object does not exist: as an error of package runtime
// or of a Kubernetes client. Such a client also makes it of a 404 page, which no API server wrote.
func IsNotFound(err error) bool {
	if cri.IsNotFound(err) {
		return true
	}
	var answer interface{ Status() metav1.Status }
	if !errors.As(err, &answer) || answer.Status().Reason != metav1.StatusReasonNotFound {
		return false
	}
	details := answer.Status().Details
	return details == nil || !slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}
