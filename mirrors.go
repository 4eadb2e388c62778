package podwright

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/mirror"
)

// Mirrors says where the twins of static pods are kept for people to see
// (spec/syncloop.md 8). The zero value keeps none (MC3).
type Mirrors struct {
	// Client is the API they are kept at. Its watch should come back as a source
	// called [syncloop.SourceAPI]; see package syncloop/mirror.
	Client mirror.Client
	// Node returns this node's object, which owns them, nil while it is not known.
	// It must not block. Required with Client.
	Node mirror.NodeGetter
}

// NodeKnown tells the engine that [Mirrors.Node] has an answer now: the mirror pods
// that wait for it are made at once (MC6). Without it that takes up to 100 ms.
func (e *Engine) NodeKnown() { e.mirrors.NodeKnown() }

// buildMirrors makes what keeps mirror pods.
func (e *Engine) buildMirrors() (err error) {
	e.mirrors, err = mirror.New(mirror.Options{
		Client: e.config.Mirrors.Client, Node: e.config.Mirrors.Node,
		Clock: e.config.Clock, Logger: e.config.Logger.WithName("mirror"),
	})
	return err
}

// mirrored shows the status manager which mirror pod stands for which static pod.
type mirrored struct{ e *Engine }

func (m mirrored) TranslateUID(uid types.UID) types.UID { return m.e.loop.Store().TranslateUID(uid) }
func (m mirrored) MirrorOf(static *v1.Pod) *v1.Pod      { return m.e.loop.Store().MirrorOf(static) }

// mirror sees to the mirror pod of a static pod that is being set up, without
// waiting for it (MC4). Which one there is the store knows best: the workers remember
// the last one they were given, and one that is gone must come back (MC5).
func (s *syncer) mirror(static *v1.Pod) {
	if syncloop.IsStatic(static) && static.DeletionTimestamp == nil {
		s.mirrors.Want(static, s.twin(static))
	}
}

// orphanedMirrors shows housekeeping the mirror pods of static pods that are gone
// (MC7, PM4).
type orphanedMirrors struct{ e *Engine }

func (m orphanedMirrors) OrphanedMirrors() []types.NamespacedName {
	var out []types.NamespacedName
	for _, pod := range m.e.loop.Store().OrphanedMirrors() {
		out = append(out, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
	return out
}

func (m orphanedMirrors) StaticTerminating(name types.NamespacedName) bool {
	return m.e.workers.IsPodForMirrorPodTerminatingByFullName(name.Name + "_" + name.Namespace)
}

func (m orphanedMirrors) DeleteMirror(name types.NamespacedName) { m.e.mirrors.Orphaned(name) }

// observed tells the status manager what an API has of a pod (spec/status.md 8.1).
func (e *Engine) observed(pod *v1.Pod) {
	if syncloop.IsMirror(pod) || !syncloop.IsStatic(pod) {
		e.status.ObservePod(pod)
	}
}
