package objects

import (
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podwright/podwright/kube/internal/reflection"
	"github.com/podwright/podwright/kube/offline"
	"github.com/podwright/podwright/runtime/pods"
)

// Services has the services of the cluster, whose addresses containers find in their environments.
// An engine gets it as Config.Pods.Services: until the first list has arrived, pods of the API
// server wait, unless a cache has the services of their namespace, and static pods start without
// them (KO10). All methods are safe for concurrent use.
type Services struct {
	options ListOptions
	list    *listing[*v1.Service]
}

var _ pods.ServiceLister = (*Services)(nil)

// NewServices returns a list of services that is empty and unknown until Run.
func NewServices(o ListOptions) (*Services, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Services{options: o, list: newListing[*v1.Service]("Service", true, o.Changed)}
	s.list.recall(o, offline.Services, slimService)
	return s, nil
}

// slimService returns what the environments of containers contain of a service.
func slimService(s *v1.Service) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name},
		Spec:       v1.ServiceSpec{Type: s.Spec.Type, ClusterIP: s.Spec.ClusterIP, ClusterIPs: s.Spec.ClusterIPs, Ports: s.Spec.Ports, ExternalName: s.Spec.ExternalName},
	}
}

// Run keeps the list up to date until ctx ends; a second concurrent Run is an error. While the API
// server is unavailable the list stays as it was.
func (s *Services) Run(ctx context.Context) error {
	core := s.options.Client.CoreV1()
	return s.list.run(ctx, reflection.Reflection{
		Name: "services", Example: &v1.Service{}, Client: s.options.Client, Clock: s.options.Clock, Logger: s.options.Logger,
		List: func(ctx context.Context, o metav1.ListOptions) (k8sruntime.Object, error) {
			return core.Services(metav1.NamespaceAll).List(ctx, o)
		},
		Watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return core.Services(metav1.NamespaceAll).Watch(ctx, o)
		},
	})
}

// Services returns the services of a namespace sorted by name, and false until they are known.
func (s *Services) Services(namespace string) ([]*v1.Service, bool) {
	out, synced := s.list.in(namespace)
	slices.SortFunc(out, func(a, b *v1.Service) int { return strings.Compare(a.Name, b.Name) })
	return out, synced
}
