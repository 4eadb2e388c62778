package tokens

import (
	"errors"
	"math/rand"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/kube/offline"
)

// Options configures [New], [NewBundles], [NewCertificates] and [NewAccounts].
type Options struct {
	// Client makes the requests. Required.
	Client kubernetes.Interface
	// Cache keeps what was issued, for a restart without an API server (KO8, KK10): entries of the kinds [offline.Token],
	// [offline.PodCertificate], [offline.TrustBundle] and [offline.ServiceAccount]. The program calls the cache's Run, and Retain
	// with those of its pods. Pods get even expired entries while the API server does not answer. Nil keeps nothing.
	Cache *offline.Cache
	// Clock is the time source. Nil means the real clock.
	Clock clock.Clock
	// Rand spreads the replacements of tokens over time. It is used under a lock and need not be
	// safe for concurrent use. Nil: the source seeds its own.
	Rand *rand.Rand
	// Logger receives failures, never secrets. Zero means silent.
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
