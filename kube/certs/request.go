package certs

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/utils/ptr"
)

// Signers of a node's certificates, under their names in the Kubernetes API.
const (
	ClientSigner  = certificatesv1.KubeAPIServerClientKubeletSignerName
	ServingSigner = certificatesv1.KubeletServingSignerName
)

// minLifetime is the shortest lifetime that the API server accepts in a request.
const minLifetime = 10 * time.Minute

// ClientRequest returns the content of a node's client certificate: the user system:node:NAME in
// the group system:nodes.
func ClientRequest(node string) *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}
}

// ServingRequest returns the content of the certificate of a node's server: the node, and its
// addresses as DNS names and IP addresses, each once and sorted. It is nil without addresses,
// because no client could verify such a certificate.
func ServingRequest(node string, addresses []v1.NodeAddress) *x509.CertificateRequest {
	request := ClientRequest(node)
	for _, a := range addresses {
		if ip := net.ParseIP(a.Address); ip != nil {
			request.IPAddresses = append(request.IPAddresses, ip)
		} else if a.Address != "" {
			request.DNSNames = append(request.DNSNames, a.Address)
		}
	}
	if len(request.IPAddresses)+len(request.DNSNames) == 0 {
		return nil
	}
	slices.Sort(request.DNSNames)
	request.DNSNames = slices.Compact(request.DNSNames)
	slices.SortFunc(request.IPAddresses, func(a, b net.IP) int { return bytes.Compare(a.To16(), b.To16()) })
	request.IPAddresses = slices.CompactFunc(request.IPAddresses, net.IP.Equal)
	return request
}

// request is a request that exists or is about to be made.
type request struct {
	// name is derived from the wanted content and the key, so that a request made before a crash is
	// found again.
	name   string
	pem    []byte
	signer string
}

func newRequest(signer string, want *x509.CertificateRequest, key crypto.Signer) (request, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, want, key)
	if err != nil {
		return request{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return request{}, err
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s\n%s\n", signer, describe(want))
	_, _ = sum.Write(public)
	return request{
		name: "node-csr-" + hex.EncodeToString(sum.Sum(nil)[:20]), signer: signer,
		pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
	}, nil
}

// describe returns equal texts for requests with the same content.
func describe(want *x509.CertificateRequest) string {
	return fmt.Sprintf("%q %q %q %q", want.Subject.CommonName, want.Subject.Organization, want.DNSNames, want.IPAddresses)
}

// object returns the request in the form of the API. Keys are elliptic-curve keys, which need no
// key encipherment.
func (r request) object(lifetime time.Duration) *certificatesv1.CertificateSigningRequest {
	usage := certificatesv1.UsageClientAuth
	if r.signer == ServingSigner {
		usage = certificatesv1.UsageServerAuth
	}
	made := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: r.name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: r.pem, SignerName: r.signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage},
		},
	}
	if lifetime != 0 {
		made.Spec.ExpirationSeconds = ptr.To(int32(min(lifetime/time.Second, 1<<31-1)))
	}
	return made
}

// make creates the request, or returns the existing one.
func (r request) make(ctx context.Context, client clientv1.CertificateSigningRequestInterface, lifetime time.Duration) (*certificatesv1.CertificateSigningRequest, error) {
	made, err := client.Create(ctx, r.object(lifetime), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = client.Get(ctx, r.name, metav1.GetOptions{})
	}
	return made, err
}

// errRefused is wrapped in errors that require another key: the request was denied, or its certificate is unusable.
var errRefused = errors.New("refused")

// chainOf returns the issued certificates, nil while the request has no answer.
func chainOf(r *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	for _, c := range r.Status.Conditions {
		if c.Status == v1.ConditionFalse || c.Type != certificatesv1.CertificateDenied && c.Type != certificatesv1.CertificateFailed {
			continue
		}
		return nil, fmt.Errorf("certificate signing request %s: %w: %s: %s: %s", r.Name, errRefused, c.Type, c.Reason, c.Message)
	}
	return r.Status.Certificate, nil
}

// stage says what an unanswered request waits for.
func stage(r *certificatesv1.CertificateSigningRequest) string {
	approved := slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved && c.Status != v1.ConditionFalse
	})
	who := "an approver (kubectl certificate approve " + r.Name + ")"
	if approved {
		who = "its signer"
	}
	return fmt.Sprintf("certificate signing request %s waits for %s", cmp.Or(r.Name, "without a name"), who)
}
