package node

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/pods"
)

// Shown are the pods as others may see them: copies, each with its newest status.
type Shown struct {
	Residents *Residents
	// Pulling returns the images that the containers of a pod are waiting for.
	Pulling func(uid types.UID) []pods.Pull
	// Translate turns the UID of a mirror pod into that of its static pod (PM6).
	Translate func(uid types.UID) types.UID
}

// All returns every pod, by namespace and name.
func (s *Shown) All() []v1.Pod {
	known := slices.SortedFunc(maps.Values(s.Residents.All()), byName)
	out := make([]v1.Pod, 0, len(known))
	for _, p := range known {
		out = append(out, *s.copy(p))
	}
	return out
}

// Get returns one pod.
func (s *Shown) Get(uid types.UID) (*v1.Pod, bool) {
	uid = s.Translate(uid)
	if pod, stopping := s.Residents.Stopping()[uid]; stopping {
		return s.copy(pod), true
	}
	if pod, desired := s.Residents.Desired.Get(uid); desired {
		return s.copy(pod), true
	}
	return nil, false
}

// Named returns the pod with this name. A desired pod takes precedence over one that is only being
// stopped, such as its predecessor.
func (s *Shown) Named(namespace, name string) (*v1.Pod, bool) {
	var found *v1.Pod
	for uid, p := range s.Residents.All() {
		if p.Namespace != namespace || p.Name != name {
			continue
		}
		found = p
		if _, desired := s.Residents.Desired.Get(uid); desired {
			break
		}
	}
	if found == nil {
		return nil, false
	}
	return s.copy(found), true
}

func (s *Shown) copy(p *v1.Pod) *v1.Pod {
	status, ok := s.Residents.Statuses.Get(p.UID)
	if !ok {
		return p.DeepCopy()
	}
	shown := *p
	shown.Status = status
	pod := shown.DeepCopy()
	ShowPulls(pod, s.Pulling(p.UID))
	return pod
}
