package node

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/pods"
)

// newShown shows these pods; those of statuses have one, and pull an image each.
func newShown(statuses podStatuses, desired ...*v1.Pod) *Shown {
	return &Shown{
		Residents: &Residents{
			Desired: desire(desired...), Statuses: statuses,
			Stopping: func() map[types.UID]*v1.Pod { return map[types.UID]*v1.Pod{} },
		},
		Pulling:   func(uid types.UID) []pods.Pull { return []pods.Pull{{Image: "image-" + string(uid)}} },
		Translate: func(uid types.UID) types.UID { return uid },
	}
}

// TestShownPodsAreCopies in the order of their namespaces, names and UIDs, with their newest statuses. What a
// caller does to one changes neither what is desired nor the status that is kept.
func TestShownPodsAreCopies(t *testing.T) {
	old, first := newPod("old"), newPod("first")
	old.Status.Phase, first.Namespace = v1.PodPending, "apart"
	again := newPod("second") // another life of the same name
	again.Name = newPod("old").Name
	kept := v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{Name: "c"}}}
	s := newShown(podStatuses{"first": kept, "second": kept}, again, old, first)

	var got []string
	for _, p := range s.All() {
		got = append(got, string(p.UID)+" "+string(p.Status.Phase))
		if len(p.Status.ContainerStatuses) > 0 {
			p.Status.ContainerStatuses[0].Name = "changed"
		}
		p.Labels = map[string]string{"changed": ""}
	}
	if want := "[first Running old Pending second Running]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	if kept.ContainerStatuses[0].Name != "c" || first.Labels != nil || first.Status.Phase != "" {
		t.Error("a shown pod shares memory with what the engine keeps")
	}
}

// BenchmarkShown reads all pods of a node of 100, each with five containers.
func BenchmarkShown(b *testing.B) {
	var desired []*v1.Pod
	statuses := podStatuses{}
	for i := range 100 {
		p, status := newPod(types.UID(fmt.Sprint(i*37%100))), v1.PodStatus{Phase: v1.PodRunning}
		for j := range 5 {
			name := fmt.Sprint("c", j)
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name, Image: "image"})
			status.ContainerStatuses = append(status.ContainerStatuses, v1.ContainerStatus{Name: name, Image: "image"})
		}
		p.Status = *status.DeepCopy()
		desired, statuses[p.UID] = append(desired, p), status
	}
	s := newShown(statuses, desired...)
	b.ReportAllocs()
	for b.Loop() {
		s.All()
	}
}
