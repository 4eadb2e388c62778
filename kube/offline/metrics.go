package offline

import (
	"go.opentelemetry.io/otel/metric"

	"github.com/podwright/podwright/internal/instrument"
)

// instruments measure how a cache is doing.
type instruments struct {
	set                     *instrument.Set
	failures                metric.Int64Counter
	entries, bytes, waiting metric.Int64Observable
}

func newInstruments(meter metric.Meter) (instruments, error) {
	set := instrument.New(meter)
	i := instruments{
		set:      set,
		failures: set.Counter("podwright_offline_cache_write_errors_total", "Entries of the offline cache that could not be written or removed."),
		entries:  set.ReadGauge("podwright_offline_cache_entries", "Entries that are kept for times without an API server."),
		bytes:    set.ReadGauge("podwright_offline_cache_bytes", "Size of the entries that are kept for times without an API server."),
		waiting:  set.ReadGauge("podwright_offline_cache_waiting", "Entries of the offline cache whose last change is not on the disk yet."),
	}
	return i, set.Err()
}

// export registers the gauges until withdraw is called.
func (c *Cache) export() (withdraw func(), err error) {
	return c.instruments.set.Export(func(o metric.Observer) {
		c.mu.Lock()
		entries, waiting, bytes := int64(0), int64(0), c.bytes
		for _, f := range c.files {
			if f.readable && !f.removed {
				entries++
			}
			if f.waits() {
				waiting++
			}
		}
		c.mu.Unlock()
		o.ObserveInt64(c.instruments.entries, entries)
		o.ObserveInt64(c.instruments.bytes, bytes)
		o.ObserveInt64(c.instruments.waiting, waiting)
	})
}
