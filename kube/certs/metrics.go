package certs

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/podwright/podwright/internal/instrument"
)

// instruments are those of the kubelet, by its names.
type instruments struct {
	set      *instrument.Set
	failures metric.Int64Counter
	ttl      metric.Float64Observable
}

func newInstruments(o Options) (instruments, error) {
	failures, ttl := "kubelet_certificate_manager_client_expiration_renew_errors", "kubelet_certificate_manager_client_ttl_seconds"
	if o.Signer == ServingSigner {
		failures, ttl = "kubelet_server_expiration_renew_errors", "kubelet_certificate_manager_server_ttl_seconds"
	}
	set := instrument.New(o.Meter)
	i := instruments{
		set: set, failures: set.Counter(failures, "Calls for a certificate that failed."),
		ttl: set.ReadSeconds(ttl, "Seconds until the node's certificate expires, negative afterwards."),
	}
	return i, set.Err()
}

func (i instruments) failed(ctx context.Context) { i.failures.Add(context.WithoutCancel(ctx), 1) }

// export has the life of the newest certificate read when metrics are, until withdraw is called.
func (k *Keeper) export() (withdraw func(), err error) {
	return k.instruments.set.Export(func(o metric.Observer) {
		if newest := k.newest(); newest != nil {
			o.ObserveFloat64(k.instruments.ttl, newest.Leaf.NotAfter.Sub(k.options.Clock.Now()).Seconds())
		}
	})
}
