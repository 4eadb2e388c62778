package tokens_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/podwright/podwright/kube/tokens"
	"github.com/podwright/podwright/runtime/pods"
)

// signer is an API server whose requests are answered by a signer.
type signer struct {
	*fake.Clientset
	t  *testing.T
	ca *ecdsa.PrivateKey

	mu       sync.Mutex
	requests []*certificatesv1.PodCertificateRequest
	after    time.Duration // the signer's time; negative: it never answers
	denies   string
	wrongKey bool
	behind   time.Duration // how far its clock is behind
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &signer{t: t, ca: ca, Clientset: fake.NewClientset(
		&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot", UID: "robot-uid"}},
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-1", UID: "node-uid"}},
	)}
	s.PrependReactor("create", "podcertificaterequests", func(a clienttesting.Action) (bool, k8sruntime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		r := a.(clienttesting.CreateAction).GetObject().(*certificatesv1.PodCertificateRequest).DeepCopy()
		r.Name = fmt.Sprint(r.GenerateName, len(s.requests))
		r.CreationTimestamp = metav1.Now()
		s.requests = append(s.requests, r)
		return true, r, nil
	})
	s.PrependReactor("get", "podcertificaterequests", func(a clienttesting.Action) (bool, k8sruntime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range s.requests {
			if r.Name == a.(clienttesting.GetAction).GetName() {
				out := r.DeepCopy()
				s.answer(out)
				return true, out, nil
			}
		}
		return false, nil, nil
	})
	return s
}

// set changes what the signer does.
func (s *signer) set(f func(s *signer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *signer) answer(r *certificatesv1.PodCertificateRequest) {
	if s.after < 0 || time.Since(r.CreationTimestamp.Time) < s.after {
		return
	}
	condition := metav1.Condition{Type: "Issued", Status: metav1.ConditionTrue}
	if s.denies != "" {
		condition = metav1.Condition{Type: "Denied", Status: metav1.ConditionTrue, Reason: s.denies, Message: "use ED25519\n"}
	}
	r.Status.Conditions = []metav1.Condition{{Type: "Failed", Status: metav1.ConditionFalse}, condition}
	if s.denies != "" {
		return
	}
	csr, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil || csr.CheckSignature() != nil {
		s.t.Errorf("KK8: the request is not signed with its key: %v", err)
		return
	}
	public := csr.PublicKey
	if s.wrongKey {
		public = s.ca.Public()
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, s.ca)
	if err != nil {
		s.t.Error(err)
	}
	r.Status.CertificateChain = "a comment\n" + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"a": "b"}, Bytes: der}))
	r.Status.NotAfter, r.Status.BeginRefreshAt = &metav1.Time{Time: time.Now().Add(time.Hour - s.behind)}, &metav1.Time{Time: time.Now().Add(40*time.Minute - s.behind)}
}

// made returns how many requests were made.
func (s *signer) made() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

func certified() *v1.Pod {
	pod := podOf("u1", "robot")
	pod.Spec.NodeName = "edge-1"
	return pod
}

func newCertificates(t *testing.T, s *signer) *tokens.Certificates {
	t.Helper()
	c, err := tokens.NewCertificates(tokens.Options{Client: s})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wanted() *v1.PodCertificateProjection {
	return &v1.PodCertificateProjection{SignerName: "example.com/s", KeyType: "ED25519", UserAnnotations: map[string]string{"example.com/a": "b"}, CredentialBundlePath: "bundle"}
}

// good reports whether a TLS server could use what was issued.
func good(c pods.PodCertificate) error {
	_, err := tls.X509KeyPair(c.Chain, c.Key)
	if err == nil && (!strings.HasPrefix(string(c.Chain), "-----BEGIN") || strings.Contains(string(c.Chain), "a: b")) {
		err = errors.New("the chain has comments")
	}
	return err
}

// KK8: a request names the pod, its service account and its node, with a key of the wanted type; the certificate
// is the key's.
func TestCertificateIsForItsPod(t *testing.T) {
	for _, keyType := range []string{"RSA3072", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"} {
		synctest.Test(t, func(t *testing.T) {
			s := newSigner(t)
			s.after = 2 * time.Second
			p := wanted()
			p.KeyType = keyType
			got, err := newCertificates(t, s).PodCertificate(t.Context(), certified(), p)
			if err != nil {
				t.Fatal(err)
			}
			if err := good(got); err != nil {
				t.Errorf("KK8: %s: %v", keyType, err)
			}
			r := s.requests[0].Spec
			if got, want := fmt.Sprint(r.SignerName, " ", r.PodName, " ", r.PodUID, " ", r.ServiceAccountName, " ", r.ServiceAccountUID, " ", r.NodeName, " ", r.NodeUID, r.UnverifiedUserAnnotations),
				"example.com/s web u1 robot robot-uid edge-1 node-uidmap[example.com/a:b]"; got != want {
				t.Errorf("KK8: %s, want %s", got, want)
			}
		})
	}
}

// KK8: a signer may take its time: its pod waits with one request, and gets the answer to that.
func TestSlowSigner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSigner(t)
		s.after = 5 * time.Minute
		c := newCertificates(t, s)
		began := time.Now()
		for time.Since(began) < 4*time.Minute {
			if _, err := c.PodCertificate(t.Context(), certified(), wanted()); !errors.Is(err, tokens.ErrWaitingForSigner) || !strings.Contains(err.Error(), "example.com/s") {
				t.Fatalf("KK8: err %v", err)
			}
			pass(10 * time.Second)
		}
		pass(2 * time.Minute)
		got, err := c.PodCertificate(t.Context(), certified(), wanted())
		if err != nil || good(got) != nil || s.made() != 1 {
			t.Errorf("KK8: err %v, %v, %d requests", err, good(got), s.made())
		}
		s.set(func(s *signer) { s.after = -1 })
		other := certified()
		other.UID = "u2"
		for began = time.Now(); time.Since(began) < time.Hour; pass(10 * time.Second) {
			_, _ = c.PodCertificate(t.Context(), other, wanted())
		}
		if n := s.made(); n < 4 || n > 6 {
			t.Errorf("KK8: %d requests in an hour to a signer that never answers", n-1)
		}
	})
}

// KK8: a refusal is told with the signer's reason and not repeated soon; then it is another request.
func TestSignerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSigner(t)
		s.denies = "UnsupportedKeyType"
		c := newCertificates(t, s)
		for began := time.Now(); time.Since(began) < time.Hour; pass(time.Second) {
			_, err := c.PodCertificate(t.Context(), certified(), wanted())
			if err == nil || !strings.Contains(err.Error(), `(Denied, UnsupportedKeyType): "use ED25519\n"`) {
				t.Fatalf("KK8: err %v", err)
			}
		}
		if n := s.made(); n < 10 || n > 22 {
			t.Errorf("KK8: %d requests in an hour", n)
		}
		s.set(func(s *signer) { s.denies, s.wrongKey = "", true })
		pass(5 * time.Minute)
		if _, err := c.PodCertificate(t.Context(), certified(), wanted()); err == nil || !strings.Contains(err.Error(), "another key") {
			t.Errorf("KK8: err %v", err)
		}
	})
}

// KK8: it is renewed when the signer said, with a new key; until then, and in an outage while it is good, it
// stays.
func TestCertificateIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSigner(t)
		c := newCertificates(t, s)
		get := func() string {
			got, err := c.PodCertificate(t.Context(), certified(), wanted())
			if err != nil {
				return "error: " + err.Error()
			}
			return string(got.Key) + string(got.Chain)
		}
		first := get()
		pass(39 * time.Minute)
		if get() != first || s.made() != 1 {
			t.Errorf("KK8: renewed early, %d requests", s.made())
		}
		s.set(func(s *signer) { s.after = -1 })
		pass(time.Minute)
		for range 10 {
			if got := get(); got != first {
				t.Errorf("KK8: a good certificate was withheld: %s", got)
			}
			pass(time.Minute)
		}
		s.set(func(s *signer) { s.after = 0 })
		pass(time.Minute)
		second := get()
		if second == first || strings.HasPrefix(second, "error") {
			t.Errorf("KK8: not renewed")
		}
		s.set(func(s *signer) { s.after = -1 })
		pass(61 * time.Minute)
		if got := get(); !strings.HasPrefix(got, "error") {
			t.Errorf("KK8: a certificate is given after its end")
		}
		c.Forget("u1")
		s.set(func(s *signer) { s.after = 0 })
		if third := get(); strings.HasPrefix(third, "error") || third == second {
			t.Errorf("KK8: after Forget %s", third)
		}
	})
}

// KK8: a certificate whose time of renewal has passed when it comes is not requested again with each use.
func TestCertificateDueOnArrivalIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSigner(t)
		s.behind = 45 * time.Minute
		c := newCertificates(t, s)
		for began := time.Now(); time.Since(began) < 10*time.Minute; pass(time.Second) {
			if got, err := c.PodCertificate(t.Context(), certified(), wanted()); err != nil || good(got) != nil {
				t.Fatalf("KK8: %v, %v", err, good(got))
			}
		}
		if n := s.made(); n != 1 {
			t.Errorf("KK8: %d requests in 10 min", n)
		}
	})
}

// KK8: what cannot be asked for is told, with what is missing.
func TestCertificateThatCannotBeAskedFor(t *testing.T) {
	s := newSigner(t)
	c := newCertificates(t, s)
	for want, change := range map[string]func(*v1.Pod, *v1.PodCertificateProjection){
		"no service account":                 func(p *v1.Pod, _ *v1.PodCertificateProjection) { p.Spec.ServiceAccountName = "" },
		`serviceaccounts "nobody" not found`: func(p *v1.Pod, _ *v1.PodCertificateProjection) { p.Spec.ServiceAccountName = "nobody" },
		`nodes "other" not found`:            func(p *v1.Pod, _ *v1.PodCertificateProjection) { p.Spec.NodeName = "other" },
		`keyType "DSA" is unknown`:           func(_ *v1.Pod, p *v1.PodCertificateProjection) { p.KeyType = "DSA" },
	} {
		pod, p := certified(), wanted()
		pod.UID += "x"
		change(pod, p)
		p.SignerName += want // another one each time
		if _, err := c.PodCertificate(t.Context(), pod, p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("KK8: err %v, want %s", err, want)
		}
	}
	if s.made() != 0 {
		t.Errorf("KK8: %d requests", s.made())
	}
	if _, err := tokens.NewCertificates(tokens.Options{}); err == nil {
		t.Error("no error without a client")
	}
}

// KK8: a node whose clock is ahead is told about the clocks; its pods get no empty certificate.
func TestCertificateForClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSigner(t)
		s.behind = 2 * time.Hour
		got, err := newCertificates(t, s).PodCertificate(t.Context(), certified(), wanted())
		if err == nil || !strings.Contains(err.Error(), "check the clocks") {
			t.Errorf("KK8: a key of %d bytes, err %v", len(got.Key), err)
		}
	})
}
