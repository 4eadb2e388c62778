package certs

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/podwright/podwright/internal/instrument"
)

// instruments are the kubelet's, under the kubelet's names.
type instruments struct {
	set      *instrument.Set
	failures metric.Int64Counter
	ttl      metric.Float64Observable
}

func newInstruments(o Options) (i instruments, err error) {
	set := instrument.New(o.Meter)
	i.set = set
	if o.Signer == ServingSigner {
		i.failures = set.Counter("kubelet_server_expiration_renew_errors", "Calls for a serving certificate that failed.")
		i.ttl = set.ReadSeconds("kubelet_certificate_manager_server_ttl_seconds", "Seconds until the serving certificate expires, negative afterwards.")
	} else {
		i.failures = set.Counter("kubelet_certificate_manager_client_expiration_renew_errors", "Calls for a client certificate that failed.")
		i.ttl = set.ReadSeconds("kubelet_certificate_manager_client_ttl_seconds", "Seconds until the client certificate expires, negative afterwards.")
	}
	return i, set.Err()
}

func (i instruments) failed(ctx context.Context) { i.failures.Add(context.WithoutCancel(ctx), 1) }

// export makes the remaining life of the newest certificate a metric, until withdraw is called.
func (k *Keeper) export() (withdraw func(), err error) {
	return k.instruments.set.Export(func(o metric.Observer) {
		if newest := k.newest(); newest != nil {
			o.ObserveFloat64(k.instruments.ttl, newest.Leaf.NotAfter.Sub(k.options.Clock.Now()).Seconds())
		}
	})
}
