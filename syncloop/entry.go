package syncloop

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/podinfo"
)

// podName is a full name as a map key.
type podName struct{ namespace, name string }

func nameOf(pod *v1.Pod) podName { return podName{pod.Namespace, pod.Name} }

// claim is what only one pod of a node can have, besides its UID. A mirror pod has
// the name of its static pod and does not compete with it.
type claim struct {
	name   podName
	mirror bool
}

func claimOf(pod *v1.Pod) claim { return claim{nameOf(pod), podinfo.Mirror(pod)} }

// entry is one pod a source wants. pod is the version the source delivered last, emitted
// the version the operations emitted last: nil if the pod lost to another source. Both are
// immutable once set; next and mark belong to the message being prepared.
type entry struct {
	pod     *v1.Pod
	emitted *v1.Pod
	claim   claim // of pod

	// Labels and annotations of pod, without the local ones. Every pod of every full
	// set is compared with them, and a list is gone through faster than a map.
	labels, annotations []pair

	// forbidden: review refuses the pod as it came. yields: nor was it admitted before, so it
	// takes no name from another one; this belongs to the message being prepared.
	forbidden, yields bool
	// earlier: an earlier process had the pod under its name, and it has kept it since.
	earlier bool

	mark uint64
	next *v1.Pod
	wins bool
}

type pair struct{ key, value string }

// keep sets the pod.
func (e *entry) keep(pod *v1.Pod) {
	if e.pod == pod {
		return
	}
	e.pod, e.labels, e.annotations = pod, nil, nil
	for k, v := range pod.Labels {
		e.labels = append(e.labels, pair{k, v})
	}
	for k, v := range pod.Annotations {
		if !localAnnotation(k) {
			e.annotations = append(e.annotations, pair{k, v})
		}
	}
}

// says reports whether a delivered pod is certainly unchanged. If not, it may still be
// unchanged: a pod with local annotations is not judged here.
func (e *entry) says(pod *v1.Pod) bool {
	return e.pod.DeletionTimestamp.Equal(pod.DeletionTimestamp) &&
		ptr.Equal(e.pod.DeletionGracePeriodSeconds, pod.DeletionGracePeriodSeconds) &&
		holds(pod.Labels, e.labels) && holds(pod.Annotations, e.annotations) &&
		sameSpec(&e.pod.Spec, &pod.Spec) && sameStatus(&e.pod.Status, &pod.Status)
}

// holds reports whether a map consists of these pairs.
func holds(m map[string]string, pairs []pair) bool {
	if len(m) != len(pairs) {
		return false
	}
	for _, p := range pairs {
		if v, ok := m[p.key]; !ok || v != p.value {
			return false
		}
	}
	return true
}
