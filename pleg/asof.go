package pleg

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// AsOf returns a lower bound for how new a later [Generator.Get] of the pod is: the stamp of the
// latest look of any kind that read the pod or found it unchanged (C1, C8, C11). The stamp of an
// unchanged pod's status stays that of its reading; this one advances with every relist. 0 means
// that nothing is known. AsOf never blocks.
func (g *Generator) AsOf(uid types.UID) runtime.Stamp { return g.cache.asOf(uid) }

func (c *cache) asOf(uid types.UID) runtime.Stamp {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var stamp runtime.Stamp
	if e := c.entries[uid]; e != nil {
		stamp = max(e.modified, e.observed)
	}
	if _, open := c.outstanding[uid]; !open {
		stamp = max(stamp, c.global)
	}
	return stamp
}
