package resize

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
)

// Totals adds up what pods request. Each pod is added once: what all others request is the sum without the pod's own.
type Totals struct {
	cpu, memory resource.Quantity
	of          map[types.UID]v1.ResourceList
}

// NewTotals returns the totals of no pod.
func NewTotals() *Totals { return &Totals{of: map[types.UID]v1.ResourceList{}} }

// Has reports whether a pod was added.
func (t *Totals) Has(uid types.UID) bool {
	_, ok := t.of[uid]
	return ok
}

// Set adds what a pod requests, or replaces it.
func (t *Totals) Set(uid types.UID, requests v1.ResourceList) {
	old := t.of[uid]
	t.cpu.Sub(old[v1.ResourceCPU])
	t.memory.Sub(old[v1.ResourceMemory])
	t.cpu.Add(requests[v1.ResourceCPU])
	t.memory.Add(requests[v1.ResourceMemory])
	t.of[uid] = requests
}

// Others returns what all other pods request. Its amounts are written in the same way whatever pods there are.
func (t *Totals) Others(uid types.UID) v1.ResourceList {
	own := t.of[uid]
	cpu, memory := t.cpu.DeepCopy(), t.memory.DeepCopy()
	cpu.Sub(own[v1.ResourceCPU])
	memory.Sub(own[v1.ResourceMemory])
	cpu.Format, memory.Format = resource.DecimalSI, resource.BinarySI
	return v1.ResourceList{v1.ResourceCPU: cpu, v1.ResourceMemory: memory}
}

// Requests returns what a pod requests of what can change.
func Requests(pod *v1.Pod) v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU: podinfo.Request(pod, v1.ResourceCPU), v1.ResourceMemory: podinfo.Request(pod, v1.ResourceMemory),
	}
}

// RequestsOf returns what a pod that was given these resources requests.
func RequestsOf(given runtime.Resources) v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(given.MilliCPURequest, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(given.MemoryRequest, resource.BinarySI),
	}
}
