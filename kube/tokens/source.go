package tokens

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/internal/answers"
	"github.com/podwright/podwright/kube/offline"
	"github.com/podwright/podwright/runtime/pods"
)

// Source gets tokens of service accounts, each for one pod (KK1-KK4). It is an engine's source of
// tokens. All methods are safe for concurrent use.
type Source struct {
	options Options
	tokens  *keeper[tokenKey, string]

	mu sync.Mutex // guards options.Rand
}

var _ pods.TokenSource = (*Source)(nil)

// tokenKey is what two requests for the same token have in common. The UID is part of it: another
// life of a pod never gets a token of an earlier one.
type tokenKey struct {
	pod      types.UID
	account  string
	audience string
	life     time.Duration
}

// entry names a token's entry in the cache.
func (k tokenKey) entry() offline.Entry {
	return offline.Entry{Kind: offline.Token, Pod: k.pod, Name: fmt.Sprintf("%s %q %s", k.account, k.audience, k.life)}
}

// New returns a source that has no token yet.
func New(o Options) (*Source, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Source{options: o, tokens: newKeeper(o, shelf[tokenKey, string]{entry: tokenKey.entry, expires: true})}, nil
}

// Token returns a token for the pod's service account, bound to the pod. It asks the API server for
// one if it has none, or if its token is due to be replaced; if that fails, it returns its token
// while that is valid. The error says why there is none, and is repeated without a new request
// until a pause is over.
func (s *Source) Token(ctx context.Context, pod *v1.Pod, p *v1.ServiceAccountTokenProjection) (string, error) {
	k := tokenKey{pod.UID, pod.Spec.ServiceAccountName, p.Audience, defaultLife}
	if p.ExpirationSeconds != nil {
		k.life = timing.Seconds(*p.ExpirationSeconds)
	}
	if k.account == "" {
		return "", errors.New("the pod has no service account")
	}
	token, err := s.tokens.get(ctx, k, question[string]{
		ask:  func(ctx context.Context) (answer[string], error) { return s.request(ctx, pod, k) },
		log:  []any{"podUID", k.pod, "namespace", pod.Namespace, "serviceAccount", k.account},
		void: gone,
	})
	if err != nil {
		return "", fmt.Errorf("token of service account %s/%s: %w", pod.Namespace, k.account, err)
	}
	return token, nil
}

// Forget drops the tokens of a pod that is gone. Without this call they are dropped some time after
// their last use.
func (s *Source) Forget(uid types.UID) {
	s.tokens.drop(func(k tokenKey) bool { return k.pod == uid })
	forget(s.options.Cache, offline.Token, uid)
}

// Renew makes the next use of each overdue token request a new one, without a pause, and returns
// the pods concerned: an agent calls it when the API server is back, and then refreshes these pods.
func (s *Source) Renew() (pods []types.UID) {
	for _, k := range s.tokens.hasten() {
		pods = append(pods, k.pod)
	}
	return pods
}

// request asks the API server for a token (KK1).
func (s *Source) request(ctx context.Context, pod *v1.Pod, k tokenKey) (answer[string], error) {
	seconds := int64(k.life / time.Second)
	want := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if k.audience != "" {
		want.Spec.Audiences = []string{k.audience}
	}
	asked := s.options.Clock.Now()
	accounts := s.options.Client.CoreV1().ServiceAccounts(pod.Namespace)
	got, err := accounts.CreateToken(ctx, k.account, want, metav1.CreateOptions{})
	for pause := lagPause; lags(s.tokens.wantedSince(k), err, asked) && pause < lagLimit && timing.Sleep(ctx, s.options.Clock, pause) == nil; pause = backoff.Next(lagPause, lagLimit, pause) {
		got, err = accounts.CreateToken(ctx, k.account, want, metav1.CreateOptions{})
	}
	switch {
	case err != nil:
		return answer[string]{}, err
	case got.Status.Token == "":
		return answer[string]{}, errors.New("the API server answered without a token")
	case got.Spec.BoundObjectRef != nil && got.Spec.BoundObjectRef.UID != pod.UID:
		return answer[string]{}, errors.New("the API server answered with a token for another pod")
	}
	life := k.life
	if got.Spec.ExpirationSeconds != nil {
		life = timing.Seconds(*got.Spec.ExpirationSeconds)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return answer[string]{value: got.Status.Token, due: dueAt(asked, life, s.options.Rand.Float64()), expires: asked.Add(life)}, nil
}

// An API server learns of a new pod's node a moment after the node does, and refuses its token
// until then. A pod is as new as the first call for its token, however long it waited for a node. Such
// a refusal is retried about four times, so that it neither delays the pod nor shows in its status (KK3).
const (
	lagPause = 100 * time.Millisecond
	lagLimit = 1600 * time.Millisecond
	newFor   = 30 * time.Second
)

// lags reports whether a refusal may come from an API server that does not know the pod's node yet.
func lags(wantedSince time.Time, err error, now time.Time) bool {
	return answers.Forbidden(err) && now.Sub(wantedSince) < newFor
}

// gone reports whether the API server says that the life of the pod, or of its service account, is
// over: then an older token is void too.
func gone(err error) bool {
	return answers.Conflict(err) || answers.NotFound(err)
}
