package tokens

import (
	"errors"
	"math/rand"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Options configures [New], [NewBundles] and [NewCertificates].
type Options struct {
	// Client makes the requests. Required.
	Client kubernetes.Interface
	// Clock is the time source. Nil: the real clock.
	Clock clock.Clock
	// Rand spreads the replacements of tokens over time. It is used under a lock and need not
	// be safe for concurrent use. Nil: the source seeds its own.
	Rand *rand.Rand
	// Logger receives what fails, never what is secret. Zero: silent.
	Logger logr.Logger
}

func (o *Options) complete() error {
	if o.Client == nil {
		return errors.New("tokens: Client is required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewSource(o.Clock.Now().UnixNano()))
	}
	return nil
}
