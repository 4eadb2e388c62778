package tokens

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/pods"
)

// patience is how long a request may take while there is a token that is still good.
const patience = 5 * time.Second

// Source gets tokens of service accounts, each for one pod (KK1-KK4). It is an engine's source of
// tokens. All methods are safe for concurrent use.
type Source struct {
	options Options

	mu     sync.Mutex
	tokens map[key]*entry
	// swept is when tokens that are no longer good were last dropped.
	swept time.Time
}

var _ pods.TokenSource = (*Source)(nil)

// key is what two requests for the same token have in common. The UID is part of it: another life
// of a pod never gets a token of an earlier one.
type key struct {
	pod      types.UID
	account  string
	audience string
	life     time.Duration
}

// entry is one token. Source.mu guards it, but for turn, which the one has who asks for a new one.
type entry struct {
	turn  chan struct{}
	used  time.Time // last asked for
	state state
}

// state is what is known of a token. It has no method that prints it.
type state struct {
	token        string
	due, expires time.Time
	// err is why the last request failed, pause how long no other is made since, until again.
	err   error
	pause time.Duration
	again time.Time
}

// New returns a source that has no token yet.
func New(o Options) (*Source, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Source{options: o, tokens: map[key]*entry{}}, nil
}

// Token returns a token for the pod's service account, bound to the pod. It asks the API server
// for one if it has none, or if the one it has is due to be replaced; if that fails it returns the one it
// has while it is good. The error says why there is none, and is given without a new request until
// a pause is over.
func (s *Source) Token(ctx context.Context, pod *v1.Pod, p *v1.ServiceAccountTokenProjection) (string, error) {
	k := key{pod.UID, pod.Spec.ServiceAccountName, p.Audience, defaultLife}
	if p.ExpirationSeconds != nil {
		k.life = timing.Seconds(*p.ExpirationSeconds)
	}
	if k.account == "" {
		return "", errors.New("the pod has no service account")
	}
	e := s.entry(k)
	token, err := s.have(e)
	if errors.Is(err, errDue) {
		token, err = s.ask(ctx, pod, k, e, token)
	}
	if err != nil {
		return "", fmt.Errorf("token of service account %s/%s: %w", pod.Namespace, k.account, err)
	}
	return token, nil
}

// errDue says that a token is to be asked for.
var errDue = errors.New("a token is due")

// have returns the token as it is: a good one, one that is good and due for replacement, or the
// reason for having none.
func (s *Source) have(e *entry) (token string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Clock.Now()
	good := e.state.good(now)
	if good {
		token = e.state.token
	}
	switch {
	case good && now.Before(e.state.due):
		return token, nil
	case !now.Before(e.state.again):
		return token, errDue
	case good:
		return token, nil
	}
	return "", e.state.err
}

// ask asks for a token. While another caller does, it waits for that answer, unless the old token
// is still good.
func (s *Source) ask(ctx context.Context, pod *v1.Pod, k key, e *entry, old string) (string, error) {
	if old != "" {
		select {
		case e.turn <- struct{}{}:
		default:
			return old, nil
		}
	} else {
		select {
		case e.turn <- struct{}{}:
		case <-ctx.Done():
			return "", fmt.Errorf("the API server has not answered: %w", ctx.Err())
		}
	}
	defer func() { <-e.turn }()
	if token, err := s.have(e); !errors.Is(err, errDue) {
		return token, err // the other caller has it
	}
	s.replace(ctx, pod, k, e, old != "")
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.state.good(s.options.Clock.Now()) {
		return e.state.token, nil
	}
	return "", e.state.err
}

// Forget drops the tokens of a pod that is gone. Without it they are dropped some time after they
// were last asked for.
func (s *Source) Forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.tokens {
		if k.pod == uid {
			delete(s.tokens, k)
		}
	}
}

func (s *state) good(now time.Time) bool { return s.token != "" && now.Before(s.expires) }

// unused is how long a token is kept that no pod asks for: running pods ask every minute.
const unused = time.Hour

// entry returns the entry of a token, and from time to time drops those that are not asked for.
func (s *Source) entry(k key) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Clock.Now()
	if now.Sub(s.swept) >= unused {
		s.swept = now
		for k, e := range s.tokens {
			if now.Sub(e.used) >= unused {
				delete(s.tokens, k)
			}
		}
	}
	e := s.tokens[k]
	if e == nil {
		e = &entry{turn: make(chan struct{}, 1)}
		s.tokens[k] = e
	}
	e.used = now
	return e
}

// replace asks for a token and notes the answer. The caller has the entry's turn.
func (s *Source) replace(ctx context.Context, pod *v1.Pod, k key, e *entry, good bool) {
	if good {
		limited, cancel := timing.WithTimeout(ctx, s.options.Clock, patience)
		defer cancel()
		ctx = limited
	}
	asked := s.options.Clock.Now()
	next, err := s.request(ctx, pod, k)
	now := s.options.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		e.state.err, e.state.pause = err, pauseAfter(err, e.state.pause)
		e.state.again = now.Add(e.state.pause)
		s.options.Logger.Info("A token could not be had", "podUID", k.pod, "namespace", pod.Namespace, "serviceAccount", k.account,
			"hasOne", good, "retryAfter", e.state.pause, "error", err.Error())
		if gone(err) {
			e.state.token = "" // KK4: what was issued to this life is void
		}
		return
	}
	life := timing.Seconds(*next.Spec.ExpirationSeconds)
	e.state = state{token: next.Status.Token, due: dueAt(asked, life, s.options.Rand.Float64()), expires: asked.Add(life)}
}

// request asks the API server for a token (KK1).
func (s *Source) request(ctx context.Context, pod *v1.Pod, k key) (*authenticationv1.TokenRequest, error) {
	seconds := int64(k.life / time.Second)
	want := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if k.audience != "" {
		want.Spec.Audiences = []string{k.audience}
	}
	got, err := s.options.Client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, k.account, want, metav1.CreateOptions{})
	switch {
	case err != nil:
		return nil, err
	case got.Status.Token == "":
		return nil, errors.New("the API server answered without a token")
	case got.Spec.BoundObjectRef != nil && got.Spec.BoundObjectRef.UID != pod.UID:
		return nil, errors.New("the API server answered with a token for another pod")
	case got.Spec.ExpirationSeconds == nil:
		got.Spec.ExpirationSeconds = &seconds
	}
	return got, nil
}

// gone reports whether the API server says that the pod's life, or its service account, is over:
// then an older token is void too.
func gone(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }
