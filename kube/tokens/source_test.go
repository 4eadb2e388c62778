package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/kube/tokens"
)

// issuer is an API server that issues tokens.
type issuer struct {
	*fake.Clientset

	mu       sync.Mutex
	err      error
	silent   chan struct{} // no answer before it is closed
	requests []string
	change   func(*authenticationv1.TokenRequest)
}

func newIssuer() *issuer {
	i := &issuer{Clientset: fake.NewClientset()}
	i.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, k8sruntime.Object, error) {
		a := action.(clienttesting.CreateActionImpl)
		r := a.GetObject().(*authenticationv1.TokenRequest).DeepCopy()
		i.mu.Lock()
		i.requests = append(i.requests, fmt.Sprintf("%s/%s %v %ds %s %s %s", a.GetNamespace(), a.Name, r.Spec.Audiences, *r.Spec.ExpirationSeconds,
			r.Spec.BoundObjectRef.Kind, r.Spec.BoundObjectRef.Name, r.Spec.BoundObjectRef.UID))
		n, err, silent := len(i.requests), i.err, i.silent
		i.mu.Unlock()
		if silent != nil {
			<-silent
		}
		r.Status.Token = fmt.Sprintf("secret%d", n)
		r.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(time.Duration(*r.Spec.ExpirationSeconds) * time.Second))
		if i.change != nil {
			i.change(r)
		}
		return true, r, err
	})
	return i
}

func (i *issuer) set(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.err = err
}

// seen returns the requests since the last call.
func (i *issuer) seen() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := i.requests
	i.requests = nil
	return out
}

func podOf(uid types.UID, account string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: uid}, Spec: v1.PodSpec{ServiceAccountName: account}}
}

func projection(audience string, seconds int64) *v1.ServiceAccountTokenProjection {
	return &v1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: &seconds, Path: "token"}
}

func newSource(t *testing.T, i *issuer, change ...func(*tokens.Options)) *tokens.Source {
	t.Helper()
	o := tokens.Options{Client: i, Rand: rand.New(rand.NewSource(1))}
	for _, c := range change {
		c(&o)
	}
	s, err := tokens.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// KK1: a token is for the audience that the projection names, or none, for its life, and bound to the
// pod's UID; equal projections share one, others do not.
func TestTokenIsBoundToItsPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer()
		s := newSource(t, i)
		for _, tc := range []struct {
			pod  *v1.Pod
			p    *v1.ServiceAccountTokenProjection
			want string
		}{
			{podOf("u1", "robot"), projection("", 3607), "ns/robot [] 3607s Pod web u1"},
			{podOf("u1", "robot"), projection("", 3607), ""},
			{podOf("u1", "robot"), projection("vault", 600), "ns/robot [vault] 600s Pod web u1"},
			{podOf("u2", "robot"), projection("vault", 600), "ns/robot [vault] 600s Pod web u2"},
			{podOf("u2", "robot"), &v1.ServiceAccountTokenProjection{}, "ns/robot [] 3600s Pod web u2"},
		} {
			token, err := s.Token(t.Context(), tc.pod, tc.p)
			if err != nil || token == "" {
				t.Errorf("KK1: %q, err %v", token, err)
			}
			if got := strings.Join(i.seen(), "; "); got != tc.want {
				t.Errorf("KK1: requests %q, want %q", got, tc.want)
			}
		}
		if _, err := s.Token(t.Context(), podOf("u3", ""), projection("", 600)); err == nil || len(i.seen()) > 0 {
			t.Errorf("KK1: a pod without service account: %v", err)
		}
	})
}

// KK2: the token is the same until it is due; then a new one comes, and when none does the old one stays while
// it is good.
func TestTokenIsReplacedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer()
		s := newSource(t, i)
		pod, p, began := podOf("u1", "robot"), projection("", 3600), time.Now()
		get := func(want string) {
			t.Helper()
			got, err := s.Token(t.Context(), pod, p)
			if err != nil && !strings.Contains(want, "error") || got != want && err == nil {
				t.Errorf("KK2: after %v %q, err %v, want %q", time.Since(began), got, err, want)
			}
		}
		get("secret1")
		pass(47*time.Minute + 49*time.Second)
		get("secret1")
		pass(11 * time.Second)
		get("secret2")
		if n := len(i.seen()); n != 2 {
			t.Errorf("KK2: %d requests", n)
		}
		i.set(errors.New("connection refused"))
		began = time.Now()
		for time.Since(began) < time.Hour-time.Minute {
			pass(10 * time.Second)
			get("secret2")
		}
		if n := len(i.seen()); n == 0 || n > 30 {
			t.Errorf("KK2: %d requests in 12 min without an API server", n)
		}
		pass(time.Minute)
		if token, err := s.Token(t.Context(), pod, p); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("KK2: %q after its end, err %v", token, err)
		}
		i.set(nil)
		pass(time.Minute)
		if token, err := s.Token(t.Context(), pod, p); err != nil || !strings.HasPrefix(token, "secret") {
			t.Errorf("KK2: %q after an outage, err %v", token, err)
		}
	})
}

// KK2: an API server that does not answer does not keep a good token from its pod, and the tokens of many pods
// that came together are not replaced together.
func TestReplacementHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer()
		s := newSource(t, i)
		p := projection("", 3600)
		for n := range 100 {
			if _, err := s.Token(t.Context(), podOf(types.UID(fmt.Sprint(n)), "robot"), p); err != nil {
				t.Fatal(err)
			}
		}
		i.seen()
		pass(48*time.Minute - mostJitter)
		var due []int
		for range 10 {
			pass(time.Second)
			for n := range 100 {
				if _, err := s.Token(t.Context(), podOf(types.UID(fmt.Sprint(n)), "robot"), p); err != nil {
					t.Fatal(err)
				}
			}
			due = append(due, len(i.seen()))
		}
		if most := slices.Max(due); most > 30 {
			t.Errorf("KK2: replaced per second: %v", due)
		}
	})
}

const (
	mostJitter = 10 * time.Second
	newFor     = 30 * time.Second
)

// KK3: a refusal is told with its reason, and not followed by another request before a pause that grows to
// 5 min.
func TestRefusalIsNotRepeatedSoon(t *testing.T) {
	accounts := schema.GroupResource{Resource: "serviceaccounts"}
	for name, refusal := range map[string]error{
		"forbidden":    apierrors.NewForbidden(accounts, "robot", errors.New(`audience "other" not found in pod spec volume`)),
		"unauthorised": apierrors.NewUnauthorized("the node's certificate has expired"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := newIssuer()
				i.set(refusal)
				s := newSource(t, i)
				_, _ = s.Token(t.Context(), podOf("u1", "robot"), projection("", 600))
				pass(newFor) // a pod that is new has more requests
				i.seen()
				for began := time.Now(); time.Since(began) < time.Hour; pass(time.Second) {
					if _, err := s.Token(t.Context(), podOf("u1", "robot"), projection("", 600)); err == nil || !strings.Contains(err.Error(), refusal.Error()) || !strings.Contains(err.Error(), "service account ns/robot") {
						t.Fatalf("KK3: err %v", err)
					}
				}
				if n := len(i.seen()); n < 10 || n > 22 {
					t.Errorf("KK3: %d requests in an hour", n)
				}
				i.set(nil)
				pass(5 * time.Minute)
				if token, err := s.Token(t.Context(), podOf("u1", "robot"), projection("", 600)); err != nil || token == "" {
					t.Errorf("KK3: %q, err %v once it is allowed", token, err)
				}
			})
		})
	}
}

// KK3: an API server that does not know yet where a new pod runs refuses its token; a few more requests in the
// same call get it. A pod that this node has had for a while gets none; when it was created, by the API server's
// clock, says nothing about that.
func TestNewPodWaitsForTheAPIServer(t *testing.T) {
	for name, c := range map[string]struct {
		age, known time.Duration
		requests   int
	}{
		"new":                            {time.Second, 0, 3},
		"new, after a long wait":         {time.Hour, 0, 3},
		"known":                          {time.Hour, 31 * time.Second, 1},
		"known, and the clock is behind": {-time.Hour, 31 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := newIssuer()
				i.set(apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "robot", errors.New("node requested token bound to a pod scheduled on a different node")))
				pod, s := podOf("u1", "robot"), newSource(t, i)
				pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-c.age))
				if c.known > 0 {
					if _, err := s.Token(t.Context(), pod, projection("", 600)); err == nil {
						t.Error("KK3: a token that was refused")
					}
					pass(c.known)
					i.seen()
				}
				time.AfterFunc(250*time.Millisecond, func() { i.set(nil) })
				_, err := s.Token(t.Context(), pod, projection("", 600))
				if n := len(i.seen()); n != c.requests || (err == nil) != (c.requests > 1) {
					t.Errorf("KK3: %d requests, want %d; %v", n, c.requests, err)
				}
				pass(time.Second)
			})
		})
	}
}

// KK4: another life of a pod gets a token of its own; one whose life the API server calls over loses its token, and
// an answer for another pod is none.
func TestTokenOfAnotherLifeIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer()
		s := newSource(t, i)
		p := projection("", 3600)
		get := func(uid types.UID) string {
			token, err := s.Token(t.Context(), podOf(uid, "robot"), p)
			if err != nil {
				return "error: " + err.Error()
			}
			return token
		}
		if one, two := get("u1"), get("u2"); one != "secret1" || two != "secret2" {
			t.Errorf("KK4: %q, %q", one, two)
		}
		s.Forget("u1")
		if one, two := get("u1"), get("u2"); one != "secret3" || two != "secret2" {
			t.Errorf("KK4: after Forget %q, %q", one, two)
		}
		i.set(apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web", errors.New("the UID in the bound object reference (u1) does not match the UID in record")))
		pass(50 * time.Minute)
		if got := get("u1"); !strings.Contains(got, "does not match") {
			t.Errorf("KK4: %q of a life that is over", got)
		}
		i.set(nil)
		i.change = func(r *authenticationv1.TokenRequest) { r.Spec.BoundObjectRef.UID = "other" }
		pass(time.Hour)
		if got := get("u1"); !strings.Contains(got, "for another pod") {
			t.Errorf("KK4: %q", got)
		}
		i.change = func(r *authenticationv1.TokenRequest) { r.Status.Token = "" }
		pass(time.Hour)
		if got := get("u1"); !strings.Contains(got, "without a token") {
			t.Errorf("%q", got)
		}
	})
}

// pageOf is what a client makes of a 404 page of something in front of the API server.
func pageOf(resource, name string) error {
	return apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: resource}, name, "404 page not found", 0, true)
}

// KK4: a 404 page does not say that the pod or its service account is gone: the token stays while it is valid.
func TestPageDropsNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer()
		s := newSource(t, i)
		pod, p := podOf("u1", "robot"), projection("", 3600)
		if _, err := s.Token(t.Context(), pod, p); err != nil {
			t.Fatal(err)
		}
		i.set(pageOf("serviceaccounts", "robot"))
		pass(48 * time.Minute)
		for range 11 {
			if got, err := s.Token(t.Context(), pod, p); err != nil || got != "secret1" {
				t.Errorf("KK4: %q, err %v", got, err)
			}
			pass(time.Minute)
		}
		if n := len(i.seen()); n < 5 {
			t.Errorf("KK3: %d requests", n)
		}
		pass(time.Minute)
		if got, err := s.Token(t.Context(), pod, p); err == nil {
			t.Errorf("KK4: %q after its end", got)
		}
	})
}

// KK2: the life that the API server grants counts, not the one asked for.
func TestGrantedLifeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer()
		i.change = func(r *authenticationv1.TokenRequest) { r.Spec.ExpirationSeconds = ptr.To[int64](600) }
		s := newSource(t, i)
		pod, p := podOf("u1", "robot"), projection("", 86400)
		for _, want := range []string{"secret1", "secret2"} {
			if got, err := s.Token(t.Context(), pod, p); err != nil || got != want {
				t.Errorf("KK2: %q, err %v, want %q", got, err, want)
			}
			pass(8 * time.Minute)
		}
	})
}

// KK2: a hung request ends with its caller, and a good token does not wait for it longer than 5 s.
func TestHungRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer()
		s := newSource(t, i)
		pod, p := podOf("u1", "robot"), projection("", 3600)
		if _, err := s.Token(t.Context(), pod, p); err != nil {
			t.Fatal(err)
		}
		i.set(context.DeadlineExceeded)
		pass(50 * time.Minute)
		i.silent = make(chan struct{})
		first := make(chan error)
		go func() {
			_, err := s.Token(t.Context(), pod, p)
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if token, err := s.Token(ctx, pod, p); err != nil || token != "secret1" {
			t.Errorf("KK2: %q, err %v beside a request under way", token, err)
		}
		close(i.silent)
		if err := <-first; err != nil {
			t.Errorf("KK2: a good token was withheld: %v", err)
		}
	})
}

// KK2: a pod without a token waits for the answer that another caller is waiting for, and no longer than its
// own context.
func TestRequestIsMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer()
		i.silent = make(chan struct{})
		s := newSource(t, i)
		pod, p := podOf("u1", "robot"), projection("", 3600)
		got := make(chan string)
		for range 3 {
			go func() {
				token, err := s.Token(t.Context(), pod, p)
				got <- fmt.Sprint(token, err)
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := s.Token(ctx, pod, p); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("KK2: %v after %v", err, time.Since(began))
		}
		close(i.silent)
		for range 3 {
			if token := <-got; token != "secret1<nil>" {
				t.Errorf("KK2: %q", token)
			}
		}
		if n := len(i.seen()); n != 1 {
			t.Errorf("KK2: %d requests", n)
		}
	})
}

// KK3: no log and no error has a token; tokens that no pod asks for are dropped.
func TestTokensAreNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs strings.Builder
		i := newIssuer()
		var s *tokens.Source
		s = newSource(t, i, func(o *tokens.Options) {
			o.Logger = funcr.New(func(prefix, args string) {
				s.Len() // would deadlock under the lock
				logs.WriteString(prefix + args)
			}, funcr.Options{Verbosity: 10})
		})
		pod, p := podOf("u1", "robot"), projection("", 3600)
		if _, err := s.Token(t.Context(), pod, p); err != nil {
			t.Fatal(err)
		}
		i.set(errors.New("connection refused"))
		pass(50 * time.Minute)
		_, _ = s.Token(t.Context(), pod, p)
		pass(time.Hour)
		_, err := s.Token(t.Context(), pod, p)
		if text := logs.String() + fmt.Sprint(err); strings.Contains(text, "secret") || !strings.Contains(text, "connection refused") {
			t.Errorf("KK3: told %s", text)
		}
		i.set(nil)
		pass(time.Minute)
		if _, err := s.Token(t.Context(), pod, p); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Hour)
		if _, err := s.Token(t.Context(), podOf("u2", "robot"), p); err != nil {
			t.Fatal(err)
		}
		if s.Len() != 1 {
			t.Errorf("%d tokens are kept", s.Len())
		}
	})
}

func TestSourceNeedsAClient(t *testing.T) {
	if _, err := tokens.New(tokens.Options{}); err == nil {
		t.Error("no error")
	}
}
