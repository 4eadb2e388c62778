package podwrighttest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podwright/podwright/status"
)

// observed is what the node's sink and recorder received from all its engines, by the pod's full name.
type observed struct {
	mu     sync.Mutex
	phases map[string][]v1.PodPhase
	events map[string][]string
}

// Phases returns the phases that the node's sink received for a pod so far, from all engines of the
// node, without consecutive repetitions. An empty phase after its last one means that it was forgotten.
func (n *Node) Phases(pod string) []v1.PodPhase {
	n.seen.mu.Lock()
	defer n.seen.mu.Unlock()
	return slices.Clone(n.seen.phases[fullName(pod)])
}

// Events returns the events of a pod so far as "Reason: message", from all engines of the node.
func (n *Node) Events(pod string) []string {
	n.seen.mu.Lock()
	defer n.seen.mu.Unlock()
	return slices.Clone(n.seen.events[fullName(pod)])
}

// sink is the node's own sink.
type sink struct{ n *Node }

func (s sink) Store(_ context.Context, u status.Update) (status.StoreResult, error) {
	heard := []v1.PodPhase{u.Status.Phase}
	if u.Forgotten {
		heard = append(heard, "")
	}
	o := &s.n.seen
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.phases == nil {
		o.phases = map[string][]v1.PodPhase{}
	}
	key := u.Namespace + "/" + u.Name
	o.phases[key] = slices.Compact(append(o.phases[key], heard...))
	return status.Stored, nil
}

// events is the node's own recorder.
type events struct{ n *Node }

func (e events) Eventf(object apiruntime.Object, _, reason, format string, args ...any) {
	key := ""
	switch o := object.(type) {
	case *v1.Pod:
		key = o.Namespace + "/" + o.Name
	case *v1.ObjectReference:
		key = o.Namespace + "/" + o.Name
	}
	o := &e.n.seen
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.events == nil {
		o.events = map[string][]string{}
	}
	o.events[key] = append(o.events[key], reason+": "+fmt.Sprintf(format, args...))
}
