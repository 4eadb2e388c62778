package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	certificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/utils/clock"
)

// Options configures [New].
type Options struct {
	// Dir is the absolute folder of the certificates and keys. It is created if it is missing, and
	// only root and the user of this process may be able to change it. Only one keeper at a time
	// may use the same Dir and Name. Required.
	Dir string
	// Name is the prefix of the file names: kubelet-client, kubelet-server. Required.
	Name string
	// Signer is [ClientSigner] or [ServingSigner]. Required.
	Signer string
	// Wanted returns what a certificate should contain, nil while that is not known: see
	// [ClientRequest] and [ServingRequest]. It is called every 10 s, by one goroutine; a different
	// result means that another certificate is requested. It must not block. Required.
	Wanted func() *x509.CertificateRequest
	// Client returns the client that makes requests. current is the certificate that is valid now;
	// nil means that there is none, or that the API server has refused it, so other credentials are
	// needed. It is called for each request, by one goroutine, and must not block. Required.
	Client func(current *tls.Certificate) (certificatesv1.CertificateSigningRequestInterface, error)
	// Initial is a certificate, with its key, that the node has from elsewhere. It is used until it
	// is due to be replaced, and never stored; its Leaf must be parsed. Nil means none.
	Initial *tls.Certificate
	// OnlyExpired requests another certificate only once none is valid any more.
	OnlyExpired bool
	// Lifetime is how long a certificate should last; signers may grant less. The API server
	// accepts no less than 10 min. 0 means what the signer grants by default.
	Lifetime time.Duration
	// Clock is the time source. Nil means the real clock.
	Clock clock.Clock
	// Rand spreads renewals over time. It is used by one goroutine at a time. Nil: the keeper seeds its own.
	Rand *rand.Rand
	// Logger receives failures, never secrets. Zero means silent.
	Logger logr.Logger
	// Meter makes the instruments. Nil means no metrics.
	Meter metric.Meter
}

func (o *Options) complete() error {
	var problems []error
	if !filepath.IsAbs(o.Dir) {
		problems = append(problems, fmt.Errorf("certs: Dir %q: want the absolute path of the folder for certificates", o.Dir))
	}
	if o.Name == "" || strings.ContainsRune(o.Name, filepath.Separator) {
		problems = append(problems, fmt.Errorf("certs: Name %q: want the beginning of a file name, such as kubelet-client", o.Name))
	}
	if o.Signer != ClientSigner && o.Signer != ServingSigner {
		problems = append(problems, fmt.Errorf("certs: Signer %q is neither %s nor %s", o.Signer, ClientSigner, ServingSigner))
	}
	if o.Wanted == nil || o.Client == nil {
		problems = append(problems, errors.New("certs: Wanted and Client are required"))
	}
	if o.Initial != nil && (o.Initial.Leaf == nil || len(o.Initial.Certificate) == 0) {
		problems = append(problems, errors.New("certs: Initial has no parsed Leaf"))
	}
	if o.Lifetime != 0 && o.Lifetime < minLifetime {
		problems = append(problems, fmt.Errorf("certs: Lifetime %s: the API server takes no less than %s", o.Lifetime, minLifetime))
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewSource(o.Clock.Now().UnixNano()))
	}
	return errors.Join(problems...)
}
