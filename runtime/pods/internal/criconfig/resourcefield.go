package criconfig

import (
	"fmt"
	"math/big"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podinfo"
)

// ResourceValue reads a resource of the container that ref names, for a volume
// (spec/runtime.md 11.6).
func ResourceValue(pod *v1.Pod, ref *v1.ResourceFieldSelector, allocatable v1.ResourceList) (string, error) {
	c := containerNamed(pod, ref.ContainerName)
	if c == nil {
		return "", fmt.Errorf("resourceFieldRef: the pod has no container %q", ref.ContainerName)
	}
	return resourceValue(pod, c, ref, allocatable)
}

// resourceValue reads a resource of a container for its environment
// (spec/runtime.md 11.6). A limit that is not set reads as the pod's, then as
// the node's allocatable amount.
func resourceValue(pod *v1.Pod, c *v1.Container, ref *v1.ResourceFieldSelector, allocatable v1.ResourceList) (string, error) {
	if ref.ContainerName != "" && ref.ContainerName != c.Name {
		if c = containerNamed(pod, ref.ContainerName); c == nil {
			return "", fmt.Errorf("resourceFieldRef: the pod has no container %q", ref.ContainerName)
		}
	}
	kind, text, _ := strings.Cut(ref.Resource, ".")
	name := v1.ResourceName(text)
	known := name == v1.ResourceCPU || name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage
	huge := strings.HasPrefix(text, v1.ResourceHugePagesPrefix)
	if (!known && !huge) || (kind != "limits" && kind != "requests") {
		return "", fmt.Errorf("resourceFieldRef: %q is not a resource of a container", ref.Resource)
	}
	var q resource.Quantity
	if kind == "requests" {
		q = podinfo.ContainerRequest(&c.Resources, name)
	} else if q = c.Resources.Limits[name]; q.IsZero() && known {
		q = podinfo.ContainerLimit(pod, c, name)
		if q.IsZero() {
			var ok bool
			if q, ok = allocatable[name]; !ok {
				return "", fmt.Errorf("resourceFieldRef: no limit of %s is set and the node's is not known", name)
			}
		}
	}
	return divide(q, ref.Divisor, name == v1.ResourceCPU)
}

// divide rounds up; the divisor 0 is 1. Whole CPUs would lose fractions that were asked
// for, so those are divided as thousandths.
func divide(q, divisor resource.Quantity, thousandths bool) (string, error) {
	if divisor.Sign() < 0 || q.Sign() < 0 {
		return "", fmt.Errorf("resourceFieldRef: negative amounts")
	}
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	amount := whole
	if thousandths {
		amount = milli
	}
	value, by := amount(q), amount(divisor)
	sum := new(big.Int).Add(big.NewInt(value), big.NewInt(by-1))
	return sum.Div(sum, big.NewInt(by)).String(), nil
}

func containerNamed(pod *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
