package podwright

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/syncloop/mirror"
)

// NodeKnown tells the engine that the Node of [Config.Mirrors] has an answer now: the mirror pods
// that wait for it are made at once (MC6). Without it that takes up to 100 ms.
func (e *Engine) NodeKnown() { e.mirrors.NodeKnown() }

// buildMirrors makes what keeps mirror pods.
func (e *Engine) buildMirrors() (err error) {
	o := e.config.Mirrors
	o.Clock, o.Logger = e.config.Clock, e.config.Observe.Logger.WithName("mirror")
	e.mirrors, err = mirror.New(o)
	return err
}

// mirrored shows the status manager which mirror pod stands for which static pod.
type mirrored struct{ e *Engine }

func (m mirrored) TranslateUID(uid types.UID) types.UID { return m.e.loop.Store().TranslateUID(uid) }
func (m mirrored) MirrorOf(static *v1.Pod) *v1.Pod      { return m.e.loop.Store().MirrorOf(static) }

// wantedMirrors takes the static pods that the syncer sets up (MC4).
type wantedMirrors struct{ e *Engine }

// Want takes the mirror pod there is from the store: the workers remember the last one
// they were given, and one that is gone must come back (MC5).
func (m wantedMirrors) Want(static *v1.Pod) {
	m.e.mirrors.Want(static, m.e.loop.Store().MirrorOf(static))
}

func (m wantedMirrors) Forget(uid types.UID) { m.e.mirrors.Forget(uid) }

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
	return m.e.workers.IsPodForMirrorPodTerminatingByFullName(podinfo.FullName(name.Namespace, name.Name))
}

func (m orphanedMirrors) DeleteMirror(name types.NamespacedName) { m.e.mirrors.Orphaned(name) }

// observed tells the status manager what an API has of a pod (spec/status.md 8.1).
func (e *Engine) observed(pod *v1.Pod) {
	if podinfo.Mirror(pod) || !podinfo.Static(pod) {
		e.status.ObservePod(pod)
	}
}
