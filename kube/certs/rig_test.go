package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	mathrand "math/rand"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
)

// authority signs as a cluster does.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	// bare leaves out the names and addresses that a request asks for.
	bare bool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: now.Add(-24 * time.Hour), NotAfter: now.AddDate(20, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{key: key, certificate: certificate}
}

// sign answers a request with a certificate for these times.
func (a *authority) sign(t testing.TB, request []byte, from, until time.Time) []byte {
	t.Helper()
	block, _ := pem.Decode(request)
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = asked.CheckSignature()
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	if a.bare {
		asked.DNSNames, asked.IPAddresses = nil, nil
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<60))
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: asked.Subject, DNSNames: asked.DNSNames, IPAddresses: asked.IPAddresses, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, a.certificate, asked.PublicKey, a.key)
	if err != nil {
		t.Error(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// pair makes one without a request, as a file has it.
func (a *authority) pair(t testing.TB, name string, from, until time.Time) []byte {
	t.Helper()
	key, content, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRequest(ClientSigner, ClientRequest(name), key)
	if err != nil {
		t.Fatal(err)
	}
	return append(a.sign(t, r.pem, from, until), content...)
}

// signer is the API server's signing requests, with who answers them.
type signer struct {
	clientv1.CertificateSigningRequestInterface

	t         testing.TB
	authority *authority

	mu       sync.Mutex
	requests map[string]*certificatesv1.CertificateSigningRequest
	// names are the requests in the order they were made, calls the times of all calls, as
	// whom whether each had a certificate.
	names []string
	calls []time.Time
	as    []bool
	// answer answers a request that is looked at, nil for never.
	answer func(r *certificatesv1.CertificateSigningRequest)
	// fail is what every call fails with.
	fail error
}

func newSigner(t testing.TB) *signer {
	s := &signer{t: t, authority: newAuthority(t), requests: map[string]*certificatesv1.CertificateSigningRequest{}}
	s.answer = s.grant(5*time.Minute, time.Hour)
	return s
}

// grant issues certificates that began a while ago and end after another.
func (s *signer) grant(ago, life time.Duration) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) {
		now := time.Now()
		r.Status.Certificate = s.authority.sign(s.t, r.Spec.Request, now.Add(-ago), now.Add(life))
	}
}

// say answers requests with a condition.
func say(condition certificatesv1.RequestConditionType) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: condition, Status: v1.ConditionTrue, Reason: "Policy", Message: "not on a Monday"}}
	}
}

func (s *signer) set(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *signer) client(current *tls.Certificate) (clientv1.CertificateSigningRequestInterface, error) {
	s.set(func() { s.as = append(s.as, current != nil) })
	return s, nil
}

var requestsResource = schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}

func (s *signer) Create(_ context.Context, r *certificatesv1.CertificateSigningRequest, _ metav1.CreateOptions) (*certificatesv1.CertificateSigningRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, time.Now())
	if s.fail != nil {
		return nil, s.fail
	}
	if s.requests[r.Name] != nil {
		return nil, apierrors.NewAlreadyExists(requestsResource, r.Name)
	}
	s.names = append(s.names, r.Name)
	s.requests[r.Name] = r.DeepCopy()
	return r, nil
}

func (s *signer) Get(_ context.Context, name string, _ metav1.GetOptions) (*certificatesv1.CertificateSigningRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, time.Now())
	if s.fail != nil {
		return nil, s.fail
	}
	r := s.requests[name]
	if r == nil {
		return nil, apierrors.NewNotFound(requestsResource, name)
	}
	if s.answer != nil && len(r.Status.Certificate) == 0 && len(r.Status.Conditions) == 0 {
		s.answer(r)
	}
	return r.DeepCopy(), nil
}

// rig is a keeper of client certificates beside a signer.
type rig struct {
	*signer
	dir     string
	keeper  *Keeper
	want    *x509.CertificateRequest
	initial *tls.Certificate
	adjust  func(o *Options)

	logged []string
	stop   func()
}

func newRig(t *testing.T) *rig {
	return &rig{signer: newSigner(t), dir: filepath.Join(t.TempDir(), "pki"), want: ClientRequest("edge-1")}
}

// start makes a keeper, and runs it until the test ends.
func (r *rig) start() {
	r.t.Helper()
	o := Options{
		Dir: r.dir, Name: "kubelet-client", Signer: ClientSigner, Client: r.client, Rand: mathrand.New(mathrand.NewSource(1)),
		Wanted:  func() *x509.CertificateRequest { r.mu.Lock(); defer r.mu.Unlock(); return r.want },
		Initial: r.initial,
		Logger: funcr.New(func(_, args string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.logged = append(r.logged, args)
		}, funcr.Options{}),
	}
	if r.adjust != nil {
		r.adjust(&o)
	}
	var err error
	if r.keeper, err = New(o); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.keeper.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		r.set(func() {})
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
}

// restart is what follows kill -9: nothing is left but the disk.
func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

// after lets time pass. The lock orders what the test has read before what is written meanwhile.
func (r *rig) after(d time.Duration) {
	r.set(func() {})
	_ = timing.Sleep(context.Background(), clock.RealClock{}, d)
	synctest.Wait()
	r.set(func() {})
}

// leaf is the certificate of the moment, nil for none.
func (r *rig) leaf() *x509.Certificate {
	c, err := r.keeper.Certificate()
	if err != nil {
		if !errors.Is(err, ErrNone) {
			r.t.Errorf("error %v does not wrap ErrNone", err)
		}
		return nil
	}
	return c.Leaf
}

// count is how many requests and calls there were.
func (r *rig) count() (requests, calls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.names), len(r.calls)
}

// in runs a test in virtual time.
func in(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer func() {
			if r.stop != nil {
				r.stop()
			}
		}()
		test(r)
	})
}
