package objects

import (
	"context"
	"fmt"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podwright/podwright/kube/internal/reflection"
	"github.com/podwright/podwright/kube/offline"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
)

// RuntimeClasses has the runtime classes of the cluster. An engine gets it as
// Config.Pods.RuntimeClasses: a pod whose class does not exist waits for it; a running pod
// continues when its class is deleted (KO11). All methods are safe for concurrent use.
type RuntimeClasses struct {
	options ListOptions
	list    *listing[*nodev1.RuntimeClass]
}

var _ pods.RuntimeClassGetter = (*RuntimeClasses)(nil)

// NewRuntimeClasses returns a list of runtime classes that is empty and unknown until Run.
func NewRuntimeClasses(o ListOptions) (*RuntimeClasses, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	r := &RuntimeClasses{options: o, list: newListing[*nodev1.RuntimeClass]("RuntimeClass", false, o.Changed)}
	r.list.recall(o, offline.RuntimeClasses, slimClass)
	return r, nil
}

// slimClass returns what pods need of a runtime class.
func slimClass(c *nodev1.RuntimeClass) *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Handler: c.Handler, Overhead: c.Overhead}
}

// Run keeps the list up to date until ctx ends; a second concurrent Run is an error. While the API
// server is unavailable the list stays as it was.
func (r *RuntimeClasses) Run(ctx context.Context) error {
	classes := r.options.Client.NodeV1().RuntimeClasses()
	return r.list.run(ctx, reflection.Reflection{
		Name: "runtime classes", Example: &nodev1.RuntimeClass{}, Client: r.options.Client, Clock: r.options.Clock, Logger: r.options.Logger,
		List: func(ctx context.Context, o metav1.ListOptions) (k8sruntime.Object, error) {
			return classes.List(ctx, o)
		},
		Watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return classes.Watch(ctx, o) },
	})
}

// RuntimeClass returns the class with this name. If it does not exist, the error matches
// runtime.ErrNotFound; every other error means that the classes are not known yet.
func (r *RuntimeClasses) RuntimeClass(name string) (pods.RuntimeClass, error) {
	class, found, unknown := r.list.one("", name)
	switch {
	case unknown != nil:
		return pods.RuntimeClass{}, fmt.Errorf("runtime class %q is not known: %w", name, unknown)
	case !found:
		return pods.RuntimeClass{}, fmt.Errorf("runtime class %q: %w", name, runtime.ErrNotFound)
	}
	out := pods.RuntimeClass{Handler: class.Handler}
	if class.Overhead != nil {
		out.Overhead = class.Overhead.PodFixed
	}
	return out, nil
}
