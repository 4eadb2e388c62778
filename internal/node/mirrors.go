package node

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/mirror"
)

// Mirrored says which mirror pod stands for which static pod. Every field must be set before a
// method is called.
type Mirrored struct {
	Store    *syncloop.Store
	Statuses Statuses
	// Lived reports whether the UID had a life before this one.
	Lived func(uid types.UID) bool
}

// TranslateUID returns the UID of the static pod that a mirror pod stands for, and any other UID
// unchanged.
func (m *Mirrored) TranslateUID(uid types.UID) types.UID { return m.Store.TranslateUID(uid) }

// MirrorOf returns the mirror pod of a static pod, or nil. One that stands for the pod which had the
// name before does not count: its status, which may be an end, is not this pod's (MC4). After an
// earlier life the mirror pod counts once this life has a status, which then says what is known of it,
// unless the mirror pod ended with that life (IN14).
func (m *Mirrored) MirrorOf(static *v1.Pod) *v1.Pod {
	mirror := m.Store.MirrorOf(static)
	switch {
	case mirror == nil || mirror.Annotations[podinfo.AnnotationMirror] != podinfo.ConfigHash(static):
		return nil
	case !m.Lived(static.UID):
		return mirror
	}
	own, known := m.Statuses.Get(static.UID)
	if !known || podinfo.Terminal(mirror.Status.Phase) && !podinfo.Terminal(own.Phase) {
		return nil
	}
	return mirror
}

// OrphanedMirrors shows housekeeping the mirror pods of static pods that are gone
// (MC7, PM4).
type OrphanedMirrors struct {
	*Mirrored
	// Terminating reports whether the static pod of a full name is being stopped.
	Terminating func(fullName string) bool
	Delete      func(name types.NamespacedName)
}

// OrphanedMirrors returns the names of these mirror pods.
func (o OrphanedMirrors) OrphanedMirrors() []types.NamespacedName {
	var out []types.NamespacedName
	for _, pod := range o.Store.OrphanedMirrors() {
		out = append(out, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
	return out
}

// StaticTerminating reports whether the static pod of this name is being stopped.
func (o OrphanedMirrors) StaticTerminating(name types.NamespacedName) bool {
	return o.Terminating(podinfo.FullName(name.Namespace, name.Name))
}

// DeleteMirror asks for the deletion of a mirror pod.
func (o OrphanedMirrors) DeleteMirror(name types.NamespacedName) { o.Delete(name) }

// WantedMirrors is told which static pods the syncer sets up (spec/syncloop.md MC4).
type WantedMirrors struct {
	Mirrors *mirror.Reconciler
	// Of returns the existing mirror pod, or nil.
	Of func(static *v1.Pod) *v1.Pod
}

// Want passes the existing mirror pod on: the workers only remember the last one they were given,
// and one that is gone must come back (MC5).
func (w WantedMirrors) Want(static *v1.Pod) { w.Mirrors.Want(static, w.Of(static)) }

// Forget says that a pod no longer needs a mirror.
func (w WantedMirrors) Forget(uid types.UID) { w.Mirrors.Forget(uid) }
