package node

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop/admission"
)

// selfPeriod is the minimum time between two calls of a function that describes this node: each
// pod's step needs the answer, and it rarely changes. A refusal needs an answer of its own.
const selfPeriod = time.Second

// errNothing means that there is no answer yet, which is not a fault.
var errNothing = errors.New("it is not known")

// SelfOptions configures [NewSelf].
type SelfOptions struct {
	// Name of the node.
	Name string
	// IPs, Allocatable and Labels are used without the functions below, and before they have
	// answered. Nil labels are not known.
	IPs         []string
	Allocatable v1.ResourceList
	Labels      map[string]string
	// Machine provides what is allocatable but not listed. Nil: this machine is examined.
	Machine *pods.Machine

	// Addresses, AllocatableNow and Object are the user's. Nil: the values above are used.
	Addresses      func() []string
	AllocatableNow func() v1.ResourceList
	Object         func() *v1.Node

	Calls  *foreign.Calls
	Clock  clock.PassiveClock
	Logger logr.Logger
}

// Self is this node as its pods see it (SN1-SN3). If a function of the user does not answer, or its
// answer cannot be used, its last answer stays in force.
type Self struct {
	options SelfOptions

	addresses   lastAnswer[[]string]
	allocatable lastAnswer[v1.ResourceList]
	object      lastAnswer[*v1.Node]
}

// NewSelf returns a node as configured.
func NewSelf(o SelfOptions) *Self {
	s := &Self{options: o}
	s.addresses.value = o.IPs
	if o.Machine == nil {
		examined := pods.ExamineMachine()
		s.options.Machine = &examined
	}
	s.allocatable.value = Allocatable(s.options.Machine, o.Allocatable)
	return s
}

// Addresses returns the node's addresses, primary first.
func (s *Self) Addresses() []string {
	ask := s.options.Addresses
	if ask == nil {
		return s.options.IPs
	}
	return lookAgain(s, &s.addresses, "Node.Addresses", func() ([]string, error) {
		ips := slices.Clone(ask())
		for _, ip := range ips {
			if _, err := netip.ParseAddr(ip); err != nil {
				return nil, err
			}
		}
		if len(ips) == 0 {
			return nil, errNothing
		}
		return ips, nil
	})
}

// Allocatable returns what pods may use together, with at least CPU and memory.
func (s *Self) Allocatable() v1.ResourceList {
	ask := s.options.AllocatableNow
	if ask == nil {
		return s.allocatable.value
	}
	return lookAgain(s, &s.allocatable, "Node.AllocatableNow", func() (v1.ResourceList, error) {
		list := ask().DeepCopy()
		for name, amount := range list {
			if amount.Sign() < 0 {
				return nil, fmt.Errorf("%s is negative: %s", name, amount.String())
			}
		}
		if list == nil {
			return nil, errNothing
		}
		return Allocatable(s.options.Machine, list), nil
	})
}

// Labels returns the node's labels, nil if they are not known.
func (s *Self) Labels() map[string]string {
	node := s.node()
	switch {
	case node == nil:
		return s.options.Labels
	case node.Labels == nil:
		return map[string]string{} // known to be empty
	}
	return node.Labels
}

// Taints returns the node's taints, none if they are not known.
func (s *Self) Taints() []v1.Taint {
	if node := s.node(); node != nil {
		return node.Spec.Taints
	}
	return nil
}

// node returns the node's object, or nil if it is not known.
func (s *Self) node() *v1.Node {
	ask := s.options.Object
	if ask == nil {
		return nil
	}
	return lookAgain(s, &s.object, "Node.Object", func() (*v1.Node, error) {
		node := ask()
		if node == nil {
			return nil, errNothing
		}
		if node.Name != s.options.Name {
			return nil, fmt.Errorf("it is the node %q, this one is %q", node.Name, s.options.Name)
		}
		return &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(node.Labels)}, Spec: v1.NodeSpec{Taints: slices.Clone(node.Spec.Taints)},
		}, nil
	})
}

// forgetObject makes the function of the node's object be asked at the next question, however recent its answer is. It
// reports whether there is such a function.
func (s *Self) forgetObject() bool {
	s.object.mu.Lock()
	defer s.object.mu.Unlock()
	s.object.asked = time.Time{}
	return s.options.Object != nil
}

// matched returns what pods are compared with.
func (s *Self) matched() admission.Node {
	return admission.Node{Name: s.options.Name, OS: goruntime.GOOS, Arch: goruntime.GOARCH, Labels: s.Labels()}
}

// lastAnswer is the last good answer of a function, and when the function was last asked.
type lastAnswer[T any] struct {
	mu     sync.Mutex
	value  T
	asked  time.Time
	refuse string // what was wrong with the last answer
}

// lookAgain asks a function if that is due, and returns its last good answer, which is read-only.
func lookAgain[T any](s *Self, last *lastAnswer[T], name string, ask func() (T, error)) T {
	value, refused := last.lookAgain(s, name, ask)
	if refused != nil { // without the lock: a logger may block
		s.options.Logger.Error(refused, "An answer about the node cannot be used; the previous answer stays in force", "function", "Config."+name)
	}
	return value
}

// lookAgain is that function without the log: refused says what is newly wrong with the answer.
func (last *lastAnswer[T]) lookAgain(s *Self, name string, ask func() (T, error)) (value T, refused error) {
	last.mu.Lock()
	defer last.mu.Unlock()
	now := s.options.Clock.Now()
	if !last.asked.IsZero() && now.Sub(last.asked) < selfPeriod && !now.Before(last.asked) {
		return last.value, nil
	}
	last.asked = now
	// An unusable answer is an answer too: only panics and silence are the function's faults.
	type answer struct {
		value T
		err   error
	}
	got, err := foreign.Quick(s.options.Calls, foreign.Call{Kind: problem.Function, Name: name, Patience: problem.FunctionLimit}, nil,
		func() (a answer, _ error) {
			a.value, a.err = ask()
			return a, nil
		})
	switch {
	case err != nil:
	case got.err == nil:
		last.value, last.refuse = got.value, ""
	case !errors.Is(got.err, errNothing) && got.err.Error() != last.refuse:
		last.refuse, refused = got.err.Error(), got.err
	}
	return last.value, refused
}
