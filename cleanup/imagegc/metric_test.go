package imagegc

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// counts adds up by reason.
type counts struct {
	noop.Int64Counter
	by map[string]int64
}

// meter makes one counter.
type meter struct {
	noop.Meter
	name  string
	total counts
}

func (m *meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	m.name = name
	return m.total, nil
}

func (c counts) Add(_ context.Context, n int64, options ...metric.AddOption) {
	set := metric.NewAddConfig(options).Attributes()
	reason, _ := set.Value("reason")
	c.by[reason.AsString()] += n
}

// IG10: removals are counted by what they were for; failed ones are not.
func TestCollectedTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(image("old"), image("young"), image("stuck"))
		n.stuck = map[string]bool{"stuck": true}
		m := &meter{total: counts{by: map[string]int64{}}}
		c, err := New(Options{
			Store: n, Containers: n, Policy: Policy{MaxAge: time.Hour}, Meter: m,
			Disk: func(context.Context) (Disk, error) {
				return Disk{Capacity: n.capacity, Available: uint64(n.free * gib)}, nil
			},
		})
		if err != nil || m.name != "kubelet_image_garbage_collected_total" {
			t.Fatal(m.name, err)
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
		if want := map[string]int64{"age": 1, "space": 1}; !maps.Equal(m.total.by, want) {
			t.Errorf("counted %v, want %v; removed %v", m.total.by, want, n.removed)
		}
	})
}
