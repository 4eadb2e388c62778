package kube

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"k8s.io/client-go/kubernetes"
	certificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/kube/certs"
)

// Certificates says how a node gets its certificates and renews them (KC1-KC5). Zero means that it
// always uses the credentials of Options.Config.
type Certificates struct {
	// Dir is the absolute folder for certificates and keys of this node only. Required for everything below.
	Dir string
	// Bootstrap returns the credentials, such as a bootstrap token, with which a node without a valid
	// certificate requests one. It is called for each such request, so a new token needs no restart. It
	// must not block. Nil means the credentials of Options.Config other than a certificate, if it has any.
	Bootstrap func() (*rest.Config, error)
	// Rotate renews the client certificate before it expires; the first to be renewed may be that of
	// Options.Config. Otherwise the node requests one, with the bootstrap credentials, only when none is valid.
	Rotate bool
	// Serving also gets the certificate of the node's server, for its addresses. Leave Server.Certificate empty.
	Serving bool
	// Lifetime is how long certificates should last, at least 10 min; signers may grant less. 0
	// means what they grant by default.
	Lifetime time.Duration
}

// client reports whether the node requests client certificates.
func (c Certificates) client() bool { return c.Bootstrap != nil || c.Rotate }

func (c Certificates) check(o *Options) (problems []error) {
	if (c.client() || c.Serving) && c.Dir == "" {
		problems = append(problems, errors.New("no Certificates.Dir: the folder for the node's certificates is required"))
	}
	if c.Serving && o.Server.Certificate != nil {
		problems = append(problems, errors.New("Certificates.Serving and Server.Certificate are both set: want one"))
	}
	return problems
}

// makeClients makes the clients of the API server, and the keeper of their certificates.
func (a *Agent) makeClients(c *podwright.Config) error {
	config, dialer := dialed(a.options.Config)
	if a.options.Certificates.client() {
		initial, broken := ownCertificate(config)
		if broken != nil {
			c.Observe.Logger.Error(broken, "The certificate in the API server's configuration is left out")
		}
		o := a.keeperOptions(c, "kubelet-client", certs.ClientSigner)
		o.Initial, o.OnlyExpired = initial, !a.options.Certificates.Rotate
		o.Wanted = func() *x509.CertificateRequest { return certs.ClientRequest(a.name) }
		var bootstrap bootstrapping
		o.Client = func(current *tls.Certificate) (certificatesv1.CertificateSigningRequestInterface, error) {
			if current != nil {
				return a.clients.all.CertificatesV1().CertificateSigningRequests(), nil
			}
			config, err := a.bootstrapConfig()
			if err != nil {
				return nil, err
			}
			return bootstrap.requests(config, dialer)
		}
		var err error
		if a.client, err = certs.New(o); err != nil {
			return err
		}
		if _, none := a.client.Certificate(); none != nil && broken != nil && a.options.Certificates.Bootstrap == nil {
			return fmt.Errorf("the certificate of the API server's clients: %w", broken)
		}
		transport, err := certs.NewTransport(config, a.client.Certificate)
		if err != nil {
			return err
		}
		config = transport.Config()
	}
	var err error
	if a.clients, err = newClients(config, dialer); err != nil {
		return fmt.Errorf("the configuration of the API server's clients: %w", err)
	}
	return nil
}

// makeServing makes the keeper of the server's certificate.
func (a *Agent) makeServing(c *podwright.Config) (err error) {
	if !a.options.Certificates.Serving {
		return nil
	}
	addresses := a.options.Node.Addresses
	if addresses == nil {
		return errors.New("Certificates.Serving needs Node.Addresses, for which the certificate is")
	}
	o := a.keeperOptions(c, "kubelet-server", certs.ServingSigner)
	o.Wanted = func() *x509.CertificateRequest { return certs.ServingRequest(a.name, addresses()) }
	o.Client = func(*tls.Certificate) (certificatesv1.CertificateSigningRequestInterface, error) {
		return a.clients.all.CertificatesV1().CertificateSigningRequests(), nil
	}
	if a.serving, err = certs.New(o); err != nil {
		return err
	}
	a.options.Server.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.serving.Certificate() }
	return nil
}

func (a *Agent) keeperOptions(c *podwright.Config, name, signer string) certs.Options {
	return certs.Options{
		Dir: a.options.Certificates.Dir, Name: name, Signer: signer, Lifetime: a.options.Certificates.Lifetime,
		Clock: c.Clock, Logger: c.Observe.Logger.WithName("certs"), Meter: meter(c, "certs"),
	}
}

// bootstrapping is the client with the bootstrap credentials. It is made when it is first needed, and
// again when the credentials have been replaced: client-go caches what belongs to a client for good.
type bootstrapping struct {
	client certificatesv1.CertificateSigningRequestInterface
	config *rest.Config
}

// bootstrapConfig says how a node without a certificate reaches the API server.
func (a *Agent) bootstrapConfig() (*rest.Config, error) {
	if bootstrap := a.options.Certificates.Bootstrap; bootstrap != nil {
		config, err := bootstrap()
		if err != nil {
			return nil, fmt.Errorf("the bootstrap credentials: %w", err)
		}
		return rest.CopyConfig(config), nil
	}
	config := rest.CopyConfig(a.options.Config)
	config.CertData, config.KeyData, config.CertFile, config.KeyFile = nil, nil, "", ""
	if !credentialed(config) {
		return nil, errors.New("there are no bootstrap credentials to ask for a certificate with: give the node some, or a valid certificate")
	}
	return config, nil
}

func (b *bootstrapping) requests(config *rest.Config, dialer *connrotation.Dialer) (certificatesv1.CertificateSigningRequestInterface, error) {
	config.Dial, config.Proxy, config.WrapTransport, config.Transport = nil, nil, nil, nil // not compared
	if b.client != nil && reflect.DeepEqual(config, b.config) {
		return b.client, nil
	}
	b.config = rest.CopyConfig(config)
	config.Dial = dialer.DialContext
	config.Wrap(beDiscreet)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("the bootstrap credentials: %w", err)
	}
	b.client = client.CertificatesV1().CertificateSigningRequests()
	return b.client, nil
}

// credentialed reports whether a configuration has credentials other than a certificate.
func credentialed(c *rest.Config) bool {
	return c.BearerToken != "" || c.BearerTokenFile != "" || c.Username != "" || c.ExecProvider != nil || c.AuthProvider != nil
}

// ownCertificate returns a configuration's certificate, nil if it has none.
func ownCertificate(c *rest.Config) (*tls.Certificate, error) {
	certificate, key := c.CertData, c.KeyData
	for _, part := range []struct {
		content *[]byte
		file    string
	}{{&certificate, c.CertFile}, {&key, c.KeyFile}} {
		if len(*part.content) == 0 && part.file != "" {
			var err error
			if *part.content, err = os.ReadFile(part.file); err != nil {
				return nil, err
			}
		}
	}
	if len(certificate) == 0 && len(key) == 0 {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	return &pair, nil
}
