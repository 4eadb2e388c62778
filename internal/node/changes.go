package node

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/latency"
	"github.com/podwright/podwright/pleg"
)

// Changes gives the loop the pods whose runtime state changed.
type Changes struct {
	*pleg.Subscription
	Exits *latency.Exits
	// Seen is called for each pod in which anything changed, before the loop gets it.
	Seen func(uid types.UID)
	// Noticed is called for each of them before Seen.
	Noticed func(uid types.UID)
	// Died is called for each pod in which a container died.
	Died func(e pleg.PodEvents)
}

// Take returns the changed pods; the list belongs to the caller.
func (c Changes) Take() []types.UID {
	events := c.Subscription.Take()
	uids := make([]types.UID, 0, len(events))
	for _, e := range events {
		c.Seen(e.UID)
		// A removed container is no reason to look at the pod (PE1).
		if e.Kinds == pleg.Removed {
			continue
		}
		if e.Kinds.Has(pleg.Died) {
			c.Died(e)
		}
		c.Exits.Delivered(e)
		c.Noticed(e.UID)
		uids = append(uids, e.UID)
	}
	return uids
}
