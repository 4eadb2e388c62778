package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/timing"
)

const (
	// reviewTimeout bounds one call to the API server.
	reviewTimeout = 10 * time.Second
	// maxReviews bounds the concurrent calls about rights, and separately those about tokens.
	maxReviews = 16
	// badTokenTTL is how long a token that was found invalid is refused without another review.
	badTokenTTL = 30 * time.Second
	// tokenTTL is how long a valid token is accepted without another review.
	tokenTTL = 2 * time.Minute
	// allowTTL and denyTTL are how long a decision holds.
	allowTTL = 5 * time.Minute
	denyTTL  = 30 * time.Second
	// maxToken is longer than any token.
	maxToken = 32 << 10
)

// errNoUser says that a request has neither a valid certificate nor a valid token.
var errNoUser = errors.New("no valid client certificate or bearer token")

// access decides who a user is and what the user may do (KH1).
type access struct {
	options *Options
	tokens  cache[authentication.UserInfo]
	bad     cache[struct{}] // tokens; separate, so that a flood of them evicts no good one
	rights  cache[bool]
	// One slot per review in flight. Any client can cause token reviews, so they have their own slots.
	tokenReviews, rightReviews chan struct{}
	outage                     quietLog
}

func newAccess(options *Options) *access {
	return &access{
		options: options, tokenReviews: make(chan struct{}, maxReviews), rightReviews: make(chan struct{}, maxReviews),
		tokens: cache[authentication.UserInfo]{clock: options.Clock}, bad: cache[struct{}]{clock: options.Clock},
		rights: cache[bool]{clock: options.Clock}, outage: quietLog{log: options.Logger, clock: options.Clock},
	}
}

// guard passes authenticated and authorised requests on to next.
func (a *access) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			http.Error(w, "HTTPS is required", http.StatusBadRequest)
			return
		}
		user, err := a.user(r)
		if err != nil {
			if !errors.Is(err, errNoUser) {
				a.outage.failed(err, "A request could not be authenticated", "path", r.URL.Path)
			}
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		wants := attributesOf(r.Method, r.URL.Path)
		what := fmt.Sprintf("(user=%s, verb=%s, resource=nodes, subresource(s)=%v)", user.Username, wants.verb, wants.subresources)
		allowed, err := a.allowed(r.Context(), user, wants)
		switch {
		case err != nil:
			a.outage.failed(err, "A request could not be authorised", "user", user.Username, "verb", wants.verb, "path", r.URL.Path)
			http.Error(w, "Authorization error "+what, http.StatusInternalServerError)
		case !allowed:
			http.Error(w, "Forbidden "+what, http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// user authenticates a request: by its certificate, otherwise by its token.
func (a *access) user(r *http.Request) (authentication.UserInfo, error) {
	if user, ok := a.certified(r.TLS); ok {
		return user, nil
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "bearer") || token == "" || len(token) > maxToken || a.options.Tokens == nil {
		return authentication.UserInfo{}, errNoUser
	}
	key := digestOf(token)
	if user, ok := a.tokens.get(key); ok {
		return user, nil
	}
	if _, bad := a.bad.get(key); bad {
		return authentication.UserInfo{}, errNoUser
	}
	var review *authentication.TokenReview
	err := a.review(r.Context(), a.tokenReviews, func(ctx context.Context) (err error) {
		review, err = a.options.Tokens.TokenReviews().Create(ctx,
			&authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		// The API server may quote the request, which contains the token (KZ1).
		return authentication.UserInfo{}, fmt.Errorf("review of a token: %s", strings.ReplaceAll(err.Error(), token, "***"))
	}
	if !review.Status.Authenticated || review.Status.User.Username == "" {
		a.bad.put(key, struct{}{}, badTokenTTL)
		return authentication.UserInfo{}, errNoUser
	}
	a.tokens.put(key, review.Status.User, tokenTTL)
	return review.Status.User, nil
}

// certified returns the user that a client certificate names, if an accepted authority has signed it.
func (a *access) certified(state *tls.ConnectionState) (authentication.UserInfo, bool) {
	var none authentication.UserInfo
	if a.options.ClientCAs == nil || len(state.PeerCertificates) == 0 {
		return none, false
	}
	roots := a.options.ClientCAs()
	if roots == nil {
		return none, false
	}
	leaf, more := state.PeerCertificates[0], x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		more.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: more, CurrentTime: a.options.Clock.Now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil || leaf.Subject.CommonName == "" {
		return none, false
	}
	groups := append([]string{}, leaf.Subject.Organization...)
	return authentication.UserInfo{Username: leaf.Subject.CommonName, Groups: append(groups, "system:authenticated")}, true
}

// allowed asks whether a user has one of the rights that suffice for a request.
func (a *access) allowed(ctx context.Context, user authentication.UserInfo, wants attributes) (bool, error) {
	if a.options.Access == nil {
		return false, nil
	}
	var problems []error
	for _, subresource := range wants.subresources {
		allowed, err := a.right(ctx, user, wants.verb, subresource)
		if allowed {
			return true, nil
		}
		problems = append(problems, err)
	}
	return false, errors.Join(problems...)
}

// right asks whether a user has one right.
func (a *access) right(ctx context.Context, user authentication.UserInfo, verb, subresource string) (bool, error) {
	key := digestOf(user, verb, subresource)
	if allowed, ok := a.rights.get(key); ok {
		return allowed, nil
	}
	extra := map[string]authorization.ExtraValue{}
	for k, v := range user.Extra {
		extra[k] = authorization.ExtraValue(v)
	}
	ask := &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		ResourceAttributes: &authorization.ResourceAttributes{
			Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: a.options.Node,
		},
	}}
	var review *authorization.SubjectAccessReview
	err := a.review(ctx, a.rightReviews, func(ctx context.Context) (err error) {
		review, err = a.options.Access.SubjectAccessReviews().Create(ctx, ask, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("review of access: %w", err)
	}
	allowed, ttl := review.Status.Allowed && !review.Status.Denied, denyTTL
	if allowed {
		ttl = allowTTL
	}
	a.rights.put(key, allowed, ttl)
	return allowed, nil
}

// review calls the API server with a timeout, once there is a free slot.
func (a *access) review(ctx context.Context, turns chan struct{}, call func(context.Context) error) error {
	ctx, cancel := timing.WithTimeout(ctx, a.options.Clock, reviewTimeout)
	defer cancel()
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
		return call(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
