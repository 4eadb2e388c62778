package tokens_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/kube/offline"
	"github.com/podwright/podwright/kube/tokens"
)

// boot opens the cache of a folder as an agent does at its start, and runs it until the returned function is called.
func boot(t *testing.T, dir string) (c *offline.Cache, cut func()) {
	t.Helper()
	c, err := offline.Open(offline.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	return c, func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func keeping(c *offline.Cache) func(*tokens.Options) {
	return func(o *tokens.Options) { o.Cache = c }
}

func refusal(code int) error {
	resource := schema.GroupResource{Resource: "pods"}
	return map[int]error{
		401: apierrors.NewUnauthorized("no"), 403: apierrors.NewForbidden(resource, "web", errors.New("no")),
		404: apierrors.NewNotFound(resource, "web"), aPage: pageOf("pods", "web"), 500: apierrors.NewInternalError(errors.New("no")),
	}[code]
}

// aPage stands for the code of a 404 page.
const aPage = -404

var errAway = errors.New("connection refused")

// KK10: the last token outlives the agent and is given to its pod, expired or not, as long as the API server does not answer; another one is
// asked for every time that is due, and at once when the agent says that the API server is back.
func TestTokenOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, i := t.TempDir(), newIssuer()
		pod, p := podOf("u1", "robot"), projection("", 3600)
		want := func(s *tokens.Source, want string) {
			t.Helper()
			if got, err := s.Token(t.Context(), pod, p); got != want || (err == nil) != (want != "") {
				t.Errorf("token %q, %v; want %q", got, err, want)
			}
		}
		c, cut := boot(t, dir)
		want(newSource(t, i, keeping(c)), "secret1")
		cut()
		for _, away := range []time.Duration{0, 30 * 24 * time.Hour} {
			pass(away)
			i.set(errAway)
			c, cut = boot(t, dir)
			s := newSource(t, i, keeping(c))
			i.seen()
			want(s, "secret1")
			if n := len(i.seen()); n != 1 {
				t.Errorf("%d requests", n)
			}
			for range 60 {
				pass(time.Minute)
				want(s, "secret1")
			}
			if n := len(i.seen()); n != 60 {
				t.Errorf("%d requests in an hour", n)
			}
			if got, err := s.Token(t.Context(), podOf("u2", "robot"), p); err == nil {
				t.Errorf("another life gets %q", got)
			}
			cut()
		}
		c, cut = boot(t, dir)
		s := newSource(t, i, keeping(c))
		want(s, "secret1")
		i.set(nil)
		i.change = func(r *authenticationv1.TokenRequest) { r.Status.Token = "secret-new" }
		i.seen()
		want(s, "secret1") // a pause
		if pods := s.Renew(); !slices.Equal(pods, []types.UID{"u1"}) {
			t.Errorf("overdue are the tokens of %v", pods)
		}
		want(s, "secret-new")
		if n := len(i.seen()); n != 1 {
			t.Errorf("%d requests after Renew", n)
		}
		if pods := s.Renew(); len(pods) != 0 {
			t.Errorf("overdue are the tokens of %v", pods)
		}
		cut()
	})
}

// KK10, KK4: what the API server decides counts: a pod or account that is gone has no token, on disk either; a refusal leaves one that is
// good, and gives none that has expired. A node whose own credentials are refused, and a failing server, are as good as away.
func TestDecisionsCountForEarlyTokens(t *testing.T) {
	for _, tc := range []struct {
		code          int
		young, old    string
		keptAfterward bool
	}{
		{401, "secret1", "secret1", true}, {403, "secret1", "", true}, {404, "", "", false}, {aPage, "secret1", "secret1", true}, {500, "secret1", "secret1", true},
	} {
		t.Run(fmt.Sprint(tc.code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for want, age := range map[*string]time.Duration{&tc.young: time.Minute, &tc.old: 24 * time.Hour} {
					dir, i := t.TempDir(), newIssuer()
					c, cut := boot(t, dir)
					if _, err := newSource(t, i, keeping(c)).Token(t.Context(), podOf("u1", "robot"), projection("", 3600)); err != nil {
						t.Fatal(err)
					}
					cut()
					pass(age)
					i.set(refusal(tc.code))
					c, cut = boot(t, dir)
					got, err := newSource(t, i, keeping(c)).Token(t.Context(), podOf("u1", "robot"), projection("", 3600))
					if got != *want || (err == nil) != (*want != "") {
						t.Errorf("age %v: token %q, %v; want %q", age, got, err, *want)
					}
					if kept := len(c.Entries(offline.Token)) == 1; kept != tc.keptAfterward {
						t.Errorf("kept: %t", kept)
					}
					cut()
				}
			})
		})
	}
}

// KK10: Forget drops what is on disk, also what this process has not used.
func TestForgottenTokenIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, i := t.TempDir(), newIssuer()
		c, cut := boot(t, dir)
		s := newSource(t, i, keeping(c))
		for _, uid := range []types.UID{"u1", "u2", "u3"} {
			if _, err := s.Token(t.Context(), podOf(uid, "robot"), projection("", 3600)); err != nil {
				t.Fatal(err)
			}
		}
		s.Forget("u1")
		cut()
		c, cut = boot(t, dir)
		newSource(t, i, keeping(c)).Forget("u2")
		if got := c.Entries(offline.Token); len(got) != 1 || got[0].Pod != "u3" {
			t.Errorf("entries %v", got)
		}
		cut()
	})
}

// KK10: a crowd of pods waits for a silent API server for 2 s once, and not again for 10 s.
func TestSilentAPIServerDelaysACrowdOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		dir, i := t.TempDir(), newIssuer()
		c, cut := boot(t, dir)
		s := newSource(t, i, keeping(c))
		uid := func(n int) types.UID { return types.UID(fmt.Sprint("u", n)) }
		ask := func(n int) string {
			token, err := s.Token(t.Context(), podOf(uid(n), "robot"), projection("", 3600))
			if err != nil {
				t.Error(err)
			}
			return token
		}
		var first []string
		for p := range n {
			first = append(first, ask(p))
		}
		cut()
		c, cut = boot(t, dir)
		s = newSource(t, i, keeping(c), func(o *tokens.Options) {
			o.Client = kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://api", QPS: -1, Transport: silence{}})
		})
		began := time.Now()
		var wg sync.WaitGroup
		for p := range n {
			wg.Go(func() {
				if got := ask(p); got != first[p] {
					t.Errorf("pod %d has %q, want %q", p, got, first[p])
				}
			})
		}
		wg.Wait()
		for p := range n {
			ask(p)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it took %v", took)
		}
		cut()
	})
}

// silence is a network that loses everything.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// KK10: so do pod certificates with their keys, trust bundles and service accounts.
func TestOtherIssuesOutliveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, s := t.TempDir(), newSigner(t)
		tracker := s.Tracker()
		for _, o := range []k8sruntime.Object{trustBundle("roots", "", "", anchor("a"))} {
			if err := tracker.Add(o); err != nil {
				t.Fatal(err)
			}
		}
		away := false
		s.PrependReactor("*", "*", func(clienttesting.Action) (bool, k8sruntime.Object, error) { return away, nil, errAway })
		pod := podOf("u1", "robot")
		pod.Spec.NodeName = "edge-1"
		read := func(c *offline.Cache) string {
			o := tokens.Options{Client: s, Cache: c}
			certificates, err1 := tokens.NewCertificates(o)
			bundles, err2 := tokens.NewBundles(o)
			accounts, err3 := tokens.NewAccounts(o)
			if err := errors.Join(err1, err2, err3); err != nil {
				t.Fatal(err)
			}
			pair, err1 := certificates.PodCertificate(t.Context(), pod, &v1.PodCertificateProjection{SignerName: "example.com/signer", KeyType: "ED25519"})
			anchors, err2 := bundles.TrustBundle(t.Context(), pod, &v1.ClusterTrustBundleProjection{Name: ptr.To("roots")})
			account, err3 := accounts.ServiceAccount(t.Context(), "ns", "robot")
			if err := errors.Join(err1, err2, err3); err != nil {
				t.Fatal(err)
			}
			if len(pair.Key) == 0 || !bytes.Contains(anchors, []byte("CERTIFICATE")) {
				t.Error("something is missing")
			}
			return fmt.Sprintf("%s %s %s %s", pair.Key, pair.Chain, anchors, account.UID)
		}
		c, cut := boot(t, dir)
		first := read(c)
		cut()
		away = true
		pass(365 * 24 * time.Hour)
		c, cut = boot(t, dir)
		if got := read(c); got != first {
			t.Errorf("after a restart\n%s\nwant\n%s", got, first)
		}
		cut()
	})
}

// KK10: that an object did not exist is known after a restart too.
func TestAbsentBundleOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, api, away := t.TempDir(), fake.NewClientset(&certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "other"}}), false
		api.PrependReactor("*", "*", func(clienttesting.Action) (bool, k8sruntime.Object, error) { return away, nil, errAway })
		for range 2 {
			c, cut := boot(t, dir)
			b, err := tokens.NewBundles(tokens.Options{Client: api, Cache: c})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.TrustBundle(t.Context(), nil, &v1.ClusterTrustBundleProjection{Name: ptr.To("roots")}); err == nil || !strings.Contains(err.Error(), "no such object") {
				t.Errorf("away: %t: %v", away, err)
			}
			cut()
			away = true
		}
	})
}
