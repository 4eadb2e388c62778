package server

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	authorization "k8s.io/api/authorization/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/kube/internal/elapsed/elapsedtest"
)

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// KH2: what each request needs rights to.
func TestAttributes(t *testing.T) {
	for _, tc := range []struct {
		method, path, verb string
		subresources       []string
	}{
		{"GET", "/containerLogs/ns/pod/app", "get", []string{"proxy"}},
		{"POST", "/exec/ns/pod/app", "create", []string{"proxy"}},
		{"GET", "/exec/ns/pod/app", "create", []string{"proxy"}},
		{"GET", "/attach/ns/pod/app", "create", []string{"proxy"}},
		{"GET", "/portForward/ns/pod", "create", []string{"proxy"}},
		{"GET", "/pods", "get", []string{"pods", "proxy"}},
		{"GET", "/runningpods/", "get", []string{"pods", "proxy"}},
		{"GET", "/healthz", "get", []string{"healthz", "proxy"}},
		{"GET", "/healthz/ping", "get", []string{"healthz", "proxy"}},
		{"GET", "/configz", "get", []string{"configz", "proxy"}},
		{"GET", "/stats/summary", "get", []string{"stats"}},
		{"GET", "/metrics/cadvisor", "get", []string{"metrics"}},
		{"GET", "/logs/syslog", "get", []string{"log"}},
		{"POST", "/checkpoint/ns/pod/app", "create", []string{"checkpoint"}},
		{"HEAD", "/", "get", []string{"proxy"}},
		{"PUT", "/x", "update", []string{"proxy"}},
		{"PATCH", "/x", "patch", []string{"proxy"}},
		{"DELETE", "/podsx", "delete", []string{"proxy"}},
		{"OPTIONS", "/run/ns/pod/app", "options", []string{"proxy"}},
	} {
		if got := attributesOf(tc.method, tc.path); got.verb != tc.verb || !slices.Equal(got.subresources, tc.subresources) {
			t.Errorf("%s %s: %v, want %s %v", tc.method, tc.path, got, tc.verb, tc.subresources)
		}
	}
}

// KH1: no anonymous access, by whatever way; a good token or certificate is asked about under its name and groups.
func TestWhoGetsIn(t *testing.T) {
	r := newRig(t, nil)
	stranger := newAuthority(t)
	for name, tc := range map[string]struct {
		client *http.Client
		token  string
		code   int
	}{
		"nothing":                     {r.client(), "", http.StatusUnauthorized},
		"bad token":                   {r.client(), "bad", http.StatusUnauthorized},
		"huge token":                  {r.client(), strings.Repeat("x", maxToken+1), http.StatusUnauthorized},
		"good token":                  {r.client(), "good", http.StatusOK},
		"certificate":                 {r.client(r.ca.issue("joe", x509.ExtKeyUsageClientAuth, "ops")), "", http.StatusOK},
		"server's certificate":        {r.client(r.ca.issue("joe", x509.ExtKeyUsageServerAuth)), "", http.StatusUnauthorized},
		"stranger's certificate":      {r.client(stranger.issue("joe", x509.ExtKeyUsageClientAuth)), "", http.StatusUnauthorized},
		"certificate without a name":  {r.client(r.ca.issue("", x509.ExtKeyUsageClientAuth)), "", http.StatusUnauthorized},
		"bad certificate, good token": {r.client(stranger.issue("joe", x509.ExtKeyUsageClientAuth)), "good", http.StatusOK},
	} {
		if code, body := r.do(tc.client, http.MethodGet, "/healthz", tc.token); code != tc.code {
			t.Errorf("%s: %d %q, want %d", name, code, body, tc.code)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	for _, q := range r.asked {
		seen[fmt.Sprintf("%s %v %s %s/%s %s", q.User, q.Groups, q.ResourceAttributes.Verb, q.ResourceAttributes.Resource, q.ResourceAttributes.Subresource, q.ResourceAttributes.Name)] = true
	}
	for _, want := range []string{"jane [staff] get nodes/healthz n1", "joe [ops system:authenticated] get nodes/healthz n1"} {
		if !seen[want] {
			t.Errorf("not asked: %s; asked: %v", want, seen)
		}
	}
}

// KH1: an embedder's plain HTTP server shows nothing.
func TestPlainHTTPIsRefused(t *testing.T) {
	r := newRig(t, nil)
	s, err := New(Options{Node: "n1", Engine: r.engine, Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	if w.Code != http.StatusBadRequest {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// KH2: fine-grained rights suffice for what they name, proxy for everything; exec needs create also over
// GET, and what is denied is 403 with the names.
func TestRights(t *testing.T) {
	r := newRig(t, nil)
	rights := map[string]bool{}
	r.may = func(q authorization.SubjectAccessReviewSpec) bool {
		return rights[q.ResourceAttributes.Verb+" "+q.ResourceAttributes.Subresource]
	}
	check := func(right, path string, want int) {
		t.Helper()
		rights = map[string]bool{right: true}
		r.clock.Step(time.Hour)
		if code, body := r.get(path, "good"); code != want || code == http.StatusForbidden && !strings.Contains(body, "user=jane") {
			t.Errorf("%s with %q: %d %q, want %d", path, right, code, body, want)
		}
	}
	check("get pods", "/pods", http.StatusOK)
	check("get proxy", "/pods", http.StatusOK)
	check("get healthz", "/pods", http.StatusForbidden)
	check("get healthz", "/healthz", http.StatusOK)
	check("get pods", "/containerLogs/default/web/app", http.StatusForbidden)
	check("get log", "/containerLogs/default/web/app", http.StatusForbidden)
	check("get proxy", "/exec/default/web/app?command=ls", http.StatusForbidden)
	check("create proxy", "/exec/default/web/app?command=ls", http.StatusNotImplemented)
	check("create proxy", "/run/default/web/app?cmd=ls", http.StatusForbidden)
	check("get proxy", "/run/default/web/app?cmd=ls", http.StatusNotFound)
}

// KH1: decisions hold for their time, one call each; without the API server they hold until they
// expire, and then nothing is allowed: 401 without a token's user, 500 without a decision.
func TestAPIServerAway(t *testing.T) {
	r := newRig(t, nil)
	joe := r.client(r.ca.issue("joe", x509.ExtKeyUsageClientAuth))
	check := func(what string, token, certificate int) {
		t.Helper()
		if code, body := r.get("/healthz", "good"); code != token {
			t.Errorf("%s: token %d %q, want %d", what, code, body, token)
		}
		if code, body := r.do(joe, http.MethodGet, "/healthz", ""); code != certificate {
			t.Errorf("%s: certificate %d %q, want %d", what, code, body, certificate)
		}
	}
	for range 5 {
		check("there", http.StatusOK, http.StatusOK)
	}
	r.mu.Lock()
	if r.reviews != 1 || len(r.asked) != 2 {
		t.Errorf("%d reviews of tokens, %d of access; want 1 and 2", r.reviews, len(r.asked))
	}
	r.mu.Unlock()
	r.away.Store(true)
	r.clock.Step(2*time.Minute - time.Second)
	check("just away", http.StatusOK, http.StatusOK)
	r.clock.Step(time.Second)
	check("token expired", http.StatusUnauthorized, http.StatusOK)
	r.clock.Step(3 * time.Minute)
	check("rights expired", http.StatusUnauthorized, http.StatusInternalServerError)
	r.away.Store(false)
	check("back", http.StatusOK, http.StatusOK)
	r.may = func(authorization.SubjectAccessReviewSpec) bool { return false }
	r.clock.Step(5 * time.Minute)
	check("denied", http.StatusForbidden, http.StatusForbidden)
	r.may = func(authorization.SubjectAccessReviewSpec) bool { return true }
	r.clock.Step(29 * time.Second)
	check("still denied", http.StatusForbidden, http.StatusForbidden)
	r.clock.Step(time.Second)
	check("allowed again", http.StatusOK, http.StatusOK)
}

// KH1: a decision expires while the machine is suspended, although its monotonic clock stands still.
func TestDecisionExpiresWhileSuspended(t *testing.T) {
	clock := &elapsedtest.Clock{}
	c := cache[int]{clock: clock}
	c.put(digestOf("token"), 1, 2*time.Minute)
	if _, ok := c.get(digestOf("token")); !ok {
		t.Error("it is not kept")
	}
	clock.Slept = 8 * time.Hour
	if _, ok := c.get(digestOf("token")); ok {
		t.Error("it counts after 8 h asleep")
	}
}

// A crowd of tokens takes bounded memory, and the newest decisions stay.
func TestCacheIsBounded(t *testing.T) {
	c := cache[int]{clock: clocktesting.NewFakePassiveClock(time.Unix(1, 0))}
	for i := range 3 * maxDecisions {
		c.put(digestOf(i), i, time.Hour)
		c.put(digestOf(i), i, time.Hour)
	}
	if len(c.entries) != maxDecisions || len(c.order) != maxDecisions {
		t.Errorf("%d entries, %d in order", len(c.entries), len(c.order))
	}
	if got, ok := c.get(digestOf(3*maxDecisions - 1)); !ok || got != 3*maxDecisions-1 {
		t.Errorf("newest: %d, %v", got, ok)
	}
	if _, ok := c.get(digestOf(0)); ok {
		t.Error("the oldest is still there")
	}
}
