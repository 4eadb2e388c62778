package memoryapi

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
)

// Server is an API server in memory. All methods are safe for concurrent use.
type Server struct {
	clock clock.WithTicker

	mu       sync.Mutex
	revision int64
	uids     int
	objects  map[key]object
	history  []Change
	// changed is closed at the next change.
	changed chan struct{}
}

// Change is one write that changed something.
type Change struct {
	Revision int64
	At       time.Time
	// Type is [watch.Added], [watch.Modified] or [watch.Deleted].
	Type watch.EventType
	// Resource is the lower-case plural, such as pods.
	Resource string
	// Object is the object after the change; for a deletion, its last state. It is only read.
	Object apiruntime.Object
	// User made the change; empty for the administrator.
	User string
}

// object is a stored object: a typed object of the API.
type object interface {
	metav1.Object
	apiruntime.Object
}

// key names an object.
type key struct{ resource, namespace, name string }

// New returns a server without objects on a clock; nil means the real one.
func New(c clock.WithTicker) *Server {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Server{clock: c, revision: 1, objects: map[key]object{}, changed: make(chan struct{})}
}

// History returns all changes so far, oldest first.
func (s *Server) History() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.history)
}

// CollectGarbage deletes what is owned by objects that no longer exist, as a cluster's garbage
// collector does a while after their deletion.
func (s *Server) CollectGarbage() {
	s.mu.Lock()
	defer s.mu.Unlock()
	living := map[types.UID]bool{}
	for _, o := range s.objects {
		living[o.GetUID()] = true
	}
	for _, k := range s.keys() {
		owners := s.objects[k].GetOwnerReferences()
		if len(owners) > 0 && !slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool { return living[r.UID] }) {
			s.remove("", k)
		}
	}
}

// keys returns the keys of all objects, always in the same order. The lock is held.
func (s *Server) keys() []key {
	all := make([]key, 0, len(s.objects))
	for k := range s.objects {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return all
}

// put stores an object under the next revision. The lock is held.
func (s *Server) put(user string, kind watch.EventType, k key, o object) object {
	s.revision++
	o.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	if kind == watch.Deleted {
		delete(s.objects, k)
	} else {
		s.objects[k] = o
	}
	s.history = append(s.history, Change{Revision: s.revision, At: s.clock.Now(), Type: kind, Resource: k.resource, Object: o, User: user})
	close(s.changed)
	s.changed = make(chan struct{})
	return o
}

// remove deletes an object and returns its last state.
func (s *Server) remove(user string, k key) object {
	return s.put(user, watch.Deleted, k, copyOf(s.objects[k]))
}

func copyOf(o object) object { return o.DeepCopyObject().(object) }

// create stores a new object. It keeps a UID that the object has, so that a test can name lives.
func (s *Server) create(user string, k key, o object) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[k] != nil {
		return nil, apierrors.NewAlreadyExists(k.groupResource(), k.name)
	}
	if pod, ok := o.(*v1.Pod); ok && user != "" {
		if err := s.mayCreate(user, pod); err != nil {
			return nil, err
		}
	}
	if o.GetUID() == "" {
		s.uids++
		o.SetUID(types.UID(fmt.Sprintf("made-%d", s.uids)))
	}
	if o.GetCreationTimestamp().Time.IsZero() {
		o.SetCreationTimestamp(metav1.NewTime(s.clock.Now().Truncate(time.Second)))
	}
	return s.put(user, watch.Added, k, o), nil
}

// replace stores the next version of an object, which change makes from a copy of the last one.
func (s *Server) replace(user string, k key, change func(last object) (object, error)) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.objects[k]
	if last == nil {
		return nil, apierrors.NewNotFound(k.groupResource(), k.name)
	}
	if err := s.mayWrite(user, last); err != nil {
		return nil, err
	}
	next, err := change(copyOf(last))
	if err != nil {
		return nil, err
	}
	switch {
	case next.GetResourceVersion() != "" && next.GetResourceVersion() != last.GetResourceVersion():
		return nil, apierrors.NewConflict(k.groupResource(), k.name, errModified)
	case next.GetUID() != "" && next.GetUID() != last.GetUID():
		return nil, otherLife(k, next.GetUID())
	}
	next.SetResourceVersion(last.GetResourceVersion())
	next.SetUID(last.GetUID())
	if equality.Semantic.DeepEqual(last, next) {
		return last, nil // a no-op write makes no revision
	}
	return s.put(user, watch.Modified, k, next), nil
}

// delete deletes an object: at once, or for a bound pod when its node confirms.
func (s *Server) delete(user string, k key, o *metav1.DeleteOptions) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.objects[k]
	if last == nil {
		return nil, apierrors.NewNotFound(k.groupResource(), k.name)
	}
	if err := s.mayWrite(user, last); err != nil {
		return nil, err
	}
	if p := o.Preconditions; p != nil {
		if p.UID != nil && *p.UID != last.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != last.GetResourceVersion() {
			return nil, apierrors.NewConflict(k.groupResource(), k.name, errPrecondition)
		}
	}
	pod, ok := last.(*v1.Pod)
	if !ok {
		return s.remove(user, k), nil
	}
	grace := graceOf(pod, o)
	switch {
	case grace == 0:
		return s.remove(user, k), nil
	case pod.DeletionTimestamp != nil && *pod.DeletionGracePeriodSeconds <= grace:
		return last, nil
	}
	next := pod.DeepCopy()
	at := metav1.NewTime(s.clock.Now().Truncate(time.Second).Add(timing.Seconds(grace)))
	next.DeletionTimestamp, next.DeletionGracePeriodSeconds = &at, &grace
	next.Generation++
	return s.put(user, watch.Modified, k, next), nil
}

// graceOf is how long the node of a pod has, in seconds.
func graceOf(pod *v1.Pod, o *metav1.DeleteOptions) int64 {
	switch {
	case pod.Spec.NodeName == "", podinfo.Terminal(pod.Status.Phase):
		return 0
	case o.GracePeriodSeconds != nil:
		return *o.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return *pod.Spec.TerminationGracePeriodSeconds
	}
	return v1.DefaultTerminationGracePeriodSeconds
}

// groupResource names the kind in errors.
func (k key) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: resources[k.resource].Group, Resource: k.resource}
}
