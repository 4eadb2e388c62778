package imagegc

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/internal/instrument/instrumenttest"
)

// IG10: removals are counted by what they were for; failed ones are not.
func TestCollectedTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(image("old"), image("young"), image("stuck"))
		n.stuck = map[string]bool{"stuck": true}
		m := &instrumenttest.Meter{}
		c, err := New(Options{
			Store: n, Containers: n, Policy: Policy{MaxAge: time.Hour}, Meter: m,
			Disk: func(context.Context) (Disk, error) {
				return Disk{Capacity: n.capacity, Available: uint64(n.free * gib)}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		young := n.images[1]
		n.images = append(n.images[:1:1], n.images[2])
		_, _ = c.Collect(t.Context()) // seen
		<-time.After(61 * time.Minute)
		n.images = append(n.images, young)
		_, _ = c.Collect(t.Context()) // those seen an hour ago go for their age
		<-time.After(3 * time.Minute)
		n.free = 10
		_, _ = c.Collect(t.Context()) // the other for space
		const name = "kubelet_image_garbage_collected_total"
		want := map[string]float64{name + "{reason=age}": 1, name + "{reason=space}": 1}
		if got := m.Take(); !maps.Equal(got, want) {
			t.Errorf("counted %v, want %v; removed %v", got, want, n.removed)
		}
	})
}
