package checkpoint

import (
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Class says how soon a change of a record has to be on the disk
// (spec/status.md 9.2).
type Class uint8

// Classes, in ascending order.
const (
	// Unchanged: there is nothing to write.
	Unchanged Class = iota
	// Lazy: soon, together with others; lost if the process ends first.
	Lazy
	// Durable: at once, and before anything acts on it.
	Durable
)

// Options configures a [Keeper].
type Options struct {
	// Store keeps the records. Required.
	Store Store
	// Keys seal the records (CK12), newest first: the first key seals, and what another key has sealed
	// is sealed again with the first. A record that none of them has sealed is set aside. Nil: records
	// are plain, in files of mode 0600. The Store must be [Files], or have its method Seal.
	Keys []Key
	// TrustPlain accepts unsealed records although there are Keys, and seals them. It is meant for the
	// first start with a key: while it is set, anyone who can write to the folder can forge a record.
	TrustPlain bool
	// BootID is written into every record.
	BootID string
	// Clock dates records and times writes. Nil means the real clock.
	Clock clock.WithDelayedExecution
	// Reserve is how many bytes of the disk the store sets apart, if it can, to give up when a
	// record no longer fits (IN4). 0 means 1 MiB; negative means none.
	Reserve int64
	// Written is called after a record was written, from the keeper's goroutine and without a lock.
	// It must not block. Nil: not called.
	Written func(uid types.UID)
	// Logger logs failures and when they end. Zero: silent.
	Logger logr.Logger
	// Meter makes the instruments named in metrics.go. Nil: none.
	Meter metric.Meter
}

// CheckKeys reports invalid keys, and keys given for a store that cannot seal.
func (o *Options) CheckKeys() error {
	_, seals := o.Store.(sealer)
	switch err := checkKeys(o.Keys); {
	case err != nil:
		return err
	case len(o.Keys) > 0 && !seals:
		return fmt.Errorf("the Store %T does not seal records: use checkpoint.NewFiles", o.Store)
	case o.TrustPlain && len(o.Keys) == 0:
		return errors.New("TrustPlain has no effect without Keys: records are then never sealed")
	}
	return nil
}

func (o *Options) setDefaults() {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Reserve == 0 {
		o.Reserve = 1 << 20
	}
	if o.Written == nil {
		o.Written = func(types.UID) {}
	}
}
