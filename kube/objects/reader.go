package objects

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/podwright/podwright/kube/internal/answers"
	"github.com/podwright/podwright/kube/internal/reflection"
	"github.com/podwright/podwright/runtime"
)

// reader makes the requests of a store.
type reader struct{ client kubernetes.Interface }

// get reads one object. cri.IsNotFound is true for its error if, and only if, the object does not
// exist (KO6).
func (r reader) get(ctx context.Context, o Object) (any, error) {
	var value any
	var err error
	switch core := r.client.CoreV1(); o.Kind {
	case kindConfigMap:
		value, err = core.ConfigMaps(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	case kindSecret:
		value, err = core.Secrets(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	default:
		return nil, fmt.Errorf("objects: no such kind %q", o.Kind)
	}
	switch {
	case answers.NotFound(err):
		return nil, runtime.ErrNotFound
	case err != nil:
		return nil, unread(err)
	}
	slim(value)
	return value, nil
}

// silence is how long a watch may send nothing.
const silence = 10 * time.Minute

// reflect keeps a store up to date with one object of the API server, until ctx ends.
func (r reader) reflect(ctx context.Context, o Object, store cache.ReflectorStore, failed func(error), options Options) {
	name := fields.OneTermEqualSelector(metav1.ObjectNameField, o.Name).String()
	work := reflection.Reflection{
		Name: o.Kind + " " + o.Namespace + "/" + o.Name, Client: r.client, Store: store, Failed: failed, Silence: silence,
		Clock: options.Clock, Logger: options.Logger,
	}
	switch core := r.client.CoreV1(); o.Kind {
	case kindConfigMap:
		work.Example = &v1.ConfigMap{}
		work.List = func(ctx context.Context, l metav1.ListOptions) (k8sruntime.Object, error) {
			l.FieldSelector = name
			return core.ConfigMaps(o.Namespace).List(ctx, l)
		}
		work.Watch = func(ctx context.Context, l metav1.ListOptions) (watch.Interface, error) {
			l.FieldSelector = name
			return core.ConfigMaps(o.Namespace).Watch(ctx, l)
		}
	default:
		work.Example = &v1.Secret{}
		work.List = func(ctx context.Context, l metav1.ListOptions) (k8sruntime.Object, error) {
			l.FieldSelector = name
			return core.Secrets(o.Namespace).List(ctx, l)
		}
		work.Watch = func(ctx context.Context, l metav1.ListOptions) (watch.Interface, error) {
			l.FieldSelector = name
			return core.Secrets(o.Namespace).Watch(ctx, l)
		}
	}
	list := work.List
	work.List = func(ctx context.Context, l metav1.ListOptions) (k8sruntime.Object, error) {
		if l.ResourceVersion == "0" {
			// A server that does not stream lists may answer this from a cache that is behind: a new pod would get what
			// its object was before, and an immutable one, which is not watched, stays so.
			l.ResourceVersion = ""
		}
		return list(ctx, l)
	}
	work.Run(ctx)
}
