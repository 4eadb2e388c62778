package node

import (
	"fmt"
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/cleanup/eviction"
)

// Allocatable returns what pods together may use, as the Node shows it (KN13). It reads files of
// the machine, unless the options give the values.
func (r *Registrar) Allocatable() v1.ResourceList {
	list := r.options.allocatable(r.options.capacity())
	if node := r.Object(); node != nil {
		maps.Copy(list, r.advertised(&node.Status))
	}
	return list
}

// capacity returns what the node has.
func (o *Options) capacity() v1.ResourceList {
	if o.Capacity != nil {
		return o.Capacity()
	}
	list := machineCapacity(o.RootDir)
	if o.MaxPods > 0 {
		list[v1.ResourcePods] = *resource.NewQuantity(int64(o.MaxPods), resource.DecimalSI)
	}
	return list
}

// allocatable returns how much of a capacity pods may use.
func (o *Options) allocatable(capacity v1.ResourceList) v1.ResourceList {
	if o.Allocatable != nil {
		return o.Allocatable()
	}
	return allocatable(capacity, o.Reserved, o.Eviction)
}

// allocatable is a capacity less what is reserved, and less the hard eviction limits, so that pods that use all
// of it are not evicted at once. Memory that the kernel keeps as huge pages is not available as other memory.
func allocatable(capacity, reserved v1.ResourceList, limits []eviction.Threshold) v1.ResourceList {
	left := capacity.DeepCopy()
	take := func(name v1.ResourceName, amount resource.Quantity) {
		if q, ok := left[name]; ok {
			if q.Sub(amount); q.Sign() < 0 {
				q = *resource.NewQuantity(0, q.Format)
			}
			left[name] = q
		}
	}
	for name, amount := range reserved {
		take(name, amount)
	}
	for name, amount := range capacity {
		if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			take(v1.ResourceMemory, amount)
		}
	}
	limited := map[eviction.Signal]v1.ResourceName{
		eviction.MemoryAvailable: v1.ResourceMemory, eviction.NodeFsAvailable: v1.ResourceEphemeralStorage,
	}
	for _, limit := range limits {
		if name, ok := limited[limit.Signal]; ok && limit.Hard() {
			has := capacity[name]
			take(name, *resource.NewQuantity(int64(limit.Value.Of(uint64(max(0, has.Value())))), resource.BinarySI))
		}
	}
	return left
}

// checkReserved returns what is wrong with a reservation.
func (o *Options) checkReserved() (problems []error) {
	capacity := o.capacity()
	for name, amount := range o.Reserved {
		has, known := capacity[name]
		switch {
		case amount.Sign() < 0:
			problems = append(problems, fmt.Errorf("the %s in Reserved, %s, is negative", name, amount.String()))
		case known && amount.Cmp(has) > 0:
			problems = append(problems, fmt.Errorf("the %s in Reserved, %s, is more than the capacity of this machine, %s", name, amount.String(), has.String()))
		}
	}
	return problems
}

// machineCapacity returns the capacity of this machine, for 110 pods, the kubelet's default.
func machineCapacity(dir string) v1.ResourceList {
	list := v1.ResourceList{
		v1.ResourceCPU:  *resource.NewQuantity(int64(cpus("/")), resource.DecimalSI),
		v1.ResourcePods: *resource.NewQuantity(110, resource.DecimalSI),
	}
	if memory := memoryBytes("/"); memory > 0 {
		list[v1.ResourceMemory] = *resource.NewQuantity(memory, resource.BinarySI)
	}
	if disk := diskBytes(dir); disk > 0 {
		list[v1.ResourceEphemeralStorage] = *resource.NewQuantity(disk, resource.BinarySI)
	}
	maps.Copy(list, hugePages("/"))
	return list
}
