package certs

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestBootstrap (KC1): a node without a certificate asks with other credentials, for what a kubelet asks for.
func TestBootstrap(t *testing.T) {
	in(t, func(r *rig) {
		r.start()
		if _, err := r.keeper.Certificate(); !errors.Is(err, ErrNone) {
			t.Errorf("before there is one: %v", err)
		}
		r.after(3 * time.Second)
		leaf := r.leaf()
		if leaf == nil || leaf.Subject.CommonName != "system:node:edge-1" || len(leaf.Subject.Organization) != 1 || leaf.Subject.Organization[0] != "system:nodes" {
			t.Fatalf("certificate %v, log %q", leaf, r.logged)
		}
		request := r.requests[r.names[0]]
		if u := request.Spec.Usages; request.Spec.SignerName != ClientSigner || len(u) != 2 || u[0] != certificatesv1.UsageDigitalSignature || u[1] != certificatesv1.UsageClientAuth {
			t.Errorf("request %+v", request.Spec)
		}
		if r.as[0] {
			t.Error("asked with a certificate that does not exist")
		}
		info, err := os.Stat(filepath.Join(r.dir, "kubelet-client-current.pem"))
		folder, err2 := os.Stat(r.dir)
		if err := errors.Join(err, err2); err != nil || info.Mode().Perm() != 0o600 || folder.Mode().Perm() != 0o700 {
			t.Errorf("mode %v, %v", info, err)
		}
		if _, err := os.Stat(filepath.Join(r.dir, "kubelet-client-pending.key")); !os.IsNotExist(err) {
			t.Errorf("the key of the request: %v", err)
		}
	})
}

// TestRenewalKeepsTheNodeItself (KC2): day after day, with the certificate that is good, and never late.
func TestRenewalKeepsTheNodeItself(t *testing.T) {
	in(t, func(r *rig) {
		r.answer = r.grant(5*time.Minute, 55*time.Minute)
		r.start()
		r.after(3 * time.Second)
		seen := map[string]bool{}
		for range 24 * 60 {
			r.after(time.Minute)
			leaf := r.leaf()
			if leaf == nil {
				t.Fatal("no certificate", r.logged)
			}
			seen[leaf.SerialNumber.String()] = true
		}
		// Each lasts 37 to 49 minutes after it came.
		if requests, calls := r.count(); len(seen) < 29 || len(seen) > 39 || requests < 29 || requests > 39 || calls > 3*requests {
			t.Errorf("%d certificates, %d requests, %d calls in a day", len(seen), requests, calls)
		}
		for _, with := range r.as[2:] {
			if !with {
				t.Error("a renewal without the certificate")
			}
		}
		if pairs, _ := filepath.Glob(filepath.Join(r.dir, "kubelet-client-2*.pem")); len(pairs) != kept {
			t.Errorf("files %q", pairs)
		}
	})
}

// TestExpiredWhileOffline (KC3): a day without the API server costs few calls; when it is back, the node asks with
// its bootstrap credentials, without a restart.
func TestExpiredWhileOffline(t *testing.T) {
	in(t, func(r *rig) {
		r.start()
		r.after(3 * time.Second)
		old := r.leaf()
		r.set(func() { r.fail = errors.New("connection refused"); r.calls, r.as = nil, nil })
		r.after(24 * time.Hour)
		if r.leaf() != nil {
			t.Error("an expired certificate is used")
		}
		if _, calls := r.count(); calls < 24*60 || calls > 24*60*3 {
			t.Errorf("%d calls in a day", calls)
		}
		if !r.as[0] || r.as[len(r.as)-1] {
			t.Error("the certificate is for while it is good, the bootstrap credentials for when it is not")
		}
		if _, err := r.keeper.Certificate(); err == nil || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), stamp(old.NotAfter)) {
			t.Errorf("reason %v", err)
		}
		r.set(func() { r.fail = nil })
		r.after(pauseMax + 3*time.Second)
		if leaf := r.leaf(); leaf == nil || leaf.SerialNumber.Cmp(old.SerialNumber) == 0 {
			t.Errorf("certificate %v", leaf)
		}
		if len(r.logged) > 24*60*3 {
			t.Errorf("%d lines", len(r.logged))
		}
	})
}

// TestRefusedCertificateFallsBack (KC3): an API server that no longer knows the certificate's authority is asked with the
// bootstrap credentials, though the certificate is good by its times.
func TestRefusedCertificateFallsBack(t *testing.T) {
	in(t, func(r *rig) {
		r.start()
		r.after(3 * time.Second)
		r.set(func() { r.fail, r.as = apierrors.NewUnauthorized("unknown authority"), nil })
		r.after(55 * time.Minute)
		r.mu.Lock()
		with, without := 0, 0
		for _, a := range r.as {
			if a {
				with++
			} else {
				without++
			}
		}
		r.mu.Unlock()
		if with == 0 || without == 0 {
			t.Errorf("%d calls with the certificate, %d with the bootstrap credentials", with, without)
		}
	})
}

// TestNoAnswer (KC1): one request, however long there is no answer, also after kill -9; one that is removed
// is made again; an approval is taken at once.
func TestNoAnswer(t *testing.T) {
	in(t, func(r *rig) {
		r.answer = nil
		r.start()
		r.after(12 * time.Hour)
		r.restart()
		r.after(12 * time.Hour)
		if requests, calls := r.count(); requests != 1 || calls > 24*60*2+20 {
			t.Errorf("%d requests, %d calls in a day", requests, calls)
		}
		if _, err := r.keeper.Certificate(); err == nil || !strings.Contains(err.Error(), "kubectl certificate approve node-csr-") {
			t.Errorf("reason %v", err)
		}
		r.set(func() { clear(r.requests) })
		r.after(2 * pauseMax)
		if len(r.names) != 2 || r.names[0] != r.names[1] {
			t.Errorf("requests %q", r.names)
		}
		r.set(func() { r.answer = r.grant(0, time.Hour) })
		r.after(pauseMax)
		if r.leaf() == nil {
			t.Error("the answer is not taken")
		}
	})
}

// TestPageIsNoRemovedRequest (KC1): a 404 page of something in front of the API server does not say that the cluster has
// removed the request: it is not made again.
func TestPageIsNoRemovedRequest(t *testing.T) {
	in(t, func(r *rig) {
		r.answer = nil
		r.start()
		r.after(time.Hour)
		_, before := r.count()
		r.set(func() {
			r.fail = apierrors.NewGenericServerResponse(404, "get", requestsResource, "node-csr", "404 page not found", 0, true)
		})
		r.after(10 * time.Minute)
		if _, calls := r.count(); calls-before > 30 {
			t.Errorf("%d calls in 10 min", calls-before)
		}
		r.set(func() { r.fail, r.answer = nil, r.grant(0, time.Hour) })
		r.after(2 * pauseMax)
		if requests, _ := r.count(); requests != 1 || r.leaf() == nil {
			t.Errorf("%d requests, certificate %v", requests, r.leaf())
		}
	})
}

// TestRefusals (KC1): another request with another key after each, ever more seldom; what the node has stays.
func TestRefusals(t *testing.T) {
	other := newAuthority(t).pair(t, "edge-1", noon.AddDate(-100, 0, 0), noon.AddDate(100, 0, 0))
	for name, c := range map[string]struct {
		answer func(r *rig) func(*certificatesv1.CertificateSigningRequest)
		reason string
	}{
		"denied": {func(*rig) func(*certificatesv1.CertificateSigningRequest) {
			return say(certificatesv1.CertificateDenied)
		}, "Denied: Policy: not on a Monday"},
		"failed": {func(*rig) func(*certificatesv1.CertificateSigningRequest) {
			return say(certificatesv1.CertificateFailed)
		}, "Failed: Policy: not on a Monday"},
		"garbage": {func(*rig) func(*certificatesv1.CertificateSigningRequest) {
			return func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = []byte("hello") }
		}, "no certificate for the node's key"},
		"another key's": {func(*rig) func(*certificatesv1.CertificateSigningRequest) {
			return func(r *certificatesv1.CertificateSigningRequest) {
				r.Status.Certificate = other[:strings.Index(string(other), "-----BEGIN EC")]
			}
		}, "no certificate for the node's key"},
		"expired": {func(r *rig) func(*certificatesv1.CertificateSigningRequest) { return r.grant(2*time.Hour, -time.Hour) }, "check the clock"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(r *rig) {
				r.answer = c.answer(r)
				r.start()
				r.after(24 * time.Hour)
				requests, calls := r.count()
				if requests < 100 || requests > 160 || calls > 2*requests+1 {
					t.Errorf("%d requests, %d calls in a day", requests, calls)
				}
				if r.names[0] == r.names[1] {
					t.Error("the same request twice")
				}
				if _, err := r.keeper.Certificate(); err == nil || !strings.Contains(err.Error(), c.reason) {
					t.Errorf("reason %v", err)
				}
				if all := strings.Join(r.logged, "\n"); strings.Contains(all, "PRIVATE KEY") || !strings.Contains(all, c.reason) {
					t.Errorf("log %s", all[:min(len(all), 1000)])
				}
				r.set(func() { r.answer = r.grant(0, time.Hour) })
				r.after(pauseMaxRefused + 3*time.Second)
				if r.leaf() == nil {
					t.Error("no certificate after the refusals")
				}
			})
		})
	}
}

// TestClockBehind (KC5): a certificate that is not good yet is waited for, without another call, and the one before it
// is used meanwhile, also after kill -9.
func TestClockBehind(t *testing.T) {
	for name, before := range map[string]bool{"first certificate": false, "renewal": true} {
		t.Run(name, func(t *testing.T) {
			in(t, func(r *rig) {
				var old string
				if before {
					r.answer = r.grant(0, time.Hour)
					r.start()
					r.after(3 * time.Second)
					old = r.leaf().SerialNumber.String()
				} else {
					r.start()
				}
				r.set(func() { r.answer = r.grant(-time.Hour, 3*time.Hour) })
				earlier := 0
				if before {
					earlier = 1
				}
				for requests := 0; requests == earlier || requests == 0; requests, _ = r.count() {
					r.after(time.Second)
				}
				r.after(2 * time.Second)
				_, calls := r.count()
				for range 2 {
					leaf := r.leaf()
					if _, err := r.keeper.Certificate(); !before && (err == nil || !strings.Contains(err.Error(), "check the clock")) {
						t.Errorf("reason %v", err)
					}
					if before && (leaf == nil || leaf.SerialNumber.String() != old) {
						t.Errorf("meanwhile %v", leaf)
					}
					r.restart()
					r.after(2 * time.Second)
				}
				r.after(time.Hour)
				if leaf := r.leaf(); leaf == nil || leaf.SerialNumber.String() == old {
					t.Errorf("afterwards %v", leaf)
				}
				if _, now := r.count(); now != calls {
					t.Errorf("%d calls while it waited", now-calls)
				}
			})
		})
	}
}

// TestShortCertificates: ones that say they began long ago are not asked for in a loop (KC2).
func TestShortCertificates(t *testing.T) {
	for life, most := range map[time.Duration]int{20 * time.Second: 24, time.Second: 61} {
		in(t, func(r *rig) {
			r.answer = r.grant(5*time.Minute, life)
			r.start()
			r.after(5 * time.Minute)
			if requests, _ := r.count(); requests > most || requests < 15 {
				t.Errorf("%s: %d requests in 5 min", life, requests)
			}
		})
	}
}

// TestDiskThatFails (KC1): the certificate is used all the same, and stored when there is room.
func TestDiskThatFails(t *testing.T) {
	in(t, func(r *rig) {
		r.start()
		if err := os.Rename(r.dir, r.dir+".away"); err != nil {
			t.Fatal(err)
		}
		r.after(3 * time.Second)
		if r.leaf() == nil || !strings.Contains(strings.Join(r.logged, "\n"), "cannot be stored") {
			t.Errorf("certificate %v, log %q", r.leaf(), r.logged)
		}
		if err := os.Rename(r.dir+".away", r.dir); err != nil {
			t.Fatal(err)
		}
		r.after(look + time.Second)
		had := r.leaf()
		r.restart()
		if got := r.leaf(); got == nil || got.SerialNumber.Cmp(had.SerialNumber) != 0 {
			t.Errorf("after a restart: %v", got)
		}
	})
}

// TestServingFollowsAddresses (KC4): another address asks for another certificate, once; one
// that is gone does not.
func TestServingFollowsAddresses(t *testing.T) {
	in(t, func(r *rig) {
		addresses := func(ips ...string) {
			list := []v1.NodeAddress{{Type: v1.NodeHostName, Address: "edge-1"}}
			for _, ip := range ips {
				list = append(list, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
			}
			r.set(func() { r.want = ServingRequest("edge-1", list) })
		}
		r.want = nil
		r.adjust = func(o *Options) { o.Signer, o.Name = ServingSigner, "kubelet-server" }
		r.start()
		r.after(time.Hour)
		if requests, _ := r.count(); requests != 0 {
			t.Error("asked without addresses")
		}
		for i, ips := range [][]string{{"10.0.0.1"}, {"10.0.0.1", "10.0.0.2"}, {"10.0.0.2"}} {
			addresses(ips...)
			r.after(look + 3*time.Second)
			leaf := r.leaf()
			if leaf == nil || leaf.VerifyHostname(ips[len(ips)-1]) != nil || leaf.VerifyHostname("edge-1") != nil {
				t.Fatalf("%q: %v", ips, leaf)
			}
			if requests, _ := r.count(); requests != []int{1, 2, 2}[i] {
				t.Errorf("%q: %d requests", ips, requests)
			}
		}
		if u := r.requests[r.names[0]].Spec.Usages; r.requests[r.names[0]].Spec.SignerName != ServingSigner || u[1] != certificatesv1.UsageServerAuth {
			t.Errorf("request %+v", u)
		}
	})
}

// TestSignerLeavesAddressesOut (KC4): such a certificate is used, and not asked for again and again, nor by the next agent;
// an address that is new, or another certificate that somebody puts there, is no answer.
func TestSignerLeavesAddressesOut(t *testing.T) {
	in(t, func(r *rig) {
		r.want = ServingRequest("edge-1", []v1.NodeAddress{{Type: v1.NodeHostName, Address: "edge-1"}})
		r.authority.bare = true
		r.start()
		r.after(30 * time.Minute)
		if requests, _ := r.count(); r.leaf() == nil || requests != 1 {
			t.Errorf("%d requests, certificate %v", requests, r.leaf())
		}
		r.restart()
		r.after(10 * time.Minute)
		if requests, _ := r.count(); r.leaf() == nil || requests != 1 {
			t.Errorf("%d requests by the next agent, certificate: %v", requests, r.leaf() != nil)
		}
		r.set(func() {
			r.want = ServingRequest("edge-1", []v1.NodeAddress{{Type: v1.NodeHostName, Address: "edge-2\n-----BEGIN CERTIFICATE-----"}})
		})
		for range 2 {
			r.restart()
			r.after(time.Minute)
			if requests, _ := r.count(); r.leaf() == nil || requests != 2 {
				t.Errorf("%d requests with another address, certificate: %v", requests, r.leaf() != nil)
			}
		}
		r.stop()
		now := time.Now()
		theirs := r.authority.pair(t, "edge-1", now, now.Add(time.Hour))
		if err := os.WriteFile(filepath.Join(r.dir, "kubelet-client-theirs.pem"), theirs, 0o600); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.after(time.Minute)
		if requests, _ := r.count(); requests != 3 {
			t.Errorf("%d requests beside a certificate of another's", requests)
		}
	})
}

// TestInitialCertificate: the one from a kubeconfig is used, renewed with itself, and not before it is due.
func TestInitialCertificate(t *testing.T) {
	for name, onlyExpired := range map[string]bool{"renewed": false, "only once it has expired": true} {
		t.Run(name, func(t *testing.T) {
			in(t, func(r *rig) {
				pair, err := parsePair(r.authority.pair(t, "edge-1", time.Now(), time.Now().Add(10*time.Hour)))
				if err != nil {
					t.Fatal(err)
				}
				r.initial = pair
				r.adjust = func(o *Options) { o.OnlyExpired = onlyExpired }
				r.start()
				r.after(6 * time.Hour)
				if requests, _ := r.count(); requests != 0 || !r.leaf().Equal(pair.Leaf) {
					t.Errorf("%d requests", requests)
				}
				r.after(4*time.Hour - 2*time.Second)
				if requests, _ := r.count(); (requests == 0) != onlyExpired {
					t.Errorf("%d requests", requests)
				}
				r.after(5 * time.Second)
				if leaf := r.leaf(); leaf == nil || leaf.Equal(pair.Leaf) || r.as[0] == onlyExpired {
					t.Errorf("certificate %v, asked with one: %v", leaf, r.as)
				}
			})
		})
	}
}

// TestBadOptions: all that is wrong is told at once.
func TestBadOptions(t *testing.T) {
	_, err := New(Options{Dir: "pki", Name: "a/b", Signer: "example.com/mine", Lifetime: time.Minute, Initial: &tls.Certificate{}})
	for _, part := range []string{`Dir "pki"`, `Name "a/b"`, "example.com/mine", "Wanted and Client", "no less than 10m0s", "no parsed Leaf"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	open := filepath.Join(t.TempDir(), "open")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	_, err = New(Options{Dir: open, Name: "kubelet-client", Signer: ClientSigner, Client: r.client, Wanted: nil})
	if err == nil {
		t.Error("no Wanted is no error")
	}
}
