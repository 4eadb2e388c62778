package pleg

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// What the model does besides the calls that an engine makes.

// Reinspect makes the next relist read the pod in full even if its containers
// look unchanged (R13), and deliver PodSync if they are. A pod that is not known
// or gone by then is ignored.
func (g *Generator) Reinspect(uid types.UID) {
	g.mu.Lock()
	defer g.unlock()
	if r := g.pods[uid]; r != nil && r.known {
		r.reinspect = true
	}
}

// Publish stores a status the caller has just read, as if it had been read here,
// and reports whether it was newer than what is known (B9, C7). The status must
// come from a [cri.View] on the same sequence and must not be modified
// afterwards.
func (g *Generator) Publish(status *runtime.PodStatus) bool {
	if status == nil || status.UID == "" {
		return false
	}
	objects := statusObjects(status)
	g.mu.Lock()
	defer g.unlock()
	r := g.ensure(status.UID)
	news := g.publish(r, status, objects, g.printer.all(objects), false)
	if r.listed == nil {
		g.finishBatches(r)
	}
	return news
}
