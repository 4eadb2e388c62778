package tokens

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/internal/answers"
	"github.com/podwright/podwright/kube/offline"
	"github.com/podwright/podwright/runtime/pods"
)

const (
	// signerPatience is how long a request waits for its signer before its pod is told so.
	signerPatience = 4 * time.Second
	signerPeriod   = 500 * time.Millisecond
	// requestLife is how long a request is waited for in total: an API server drops those that no
	// signer answers.
	requestLife = 15 * time.Minute
)

// ErrWaitingForSigner says that a certificate was requested and its signer has not answered.
var ErrWaitingForSigner = errors.New("its signer has not answered yet")

// errRefusedBySigner is the error if a signer refuses to issue.
var errRefusedBySigner = errors.New("its signer refused")

// Certificates gets private keys with certificates for pods (KK8). It is an engine's source of pod
// certificates. All methods are safe for concurrent use.
type Certificates struct {
	options Options
	kept    *keeper[certificateKey, pods.PodCertificate]

	mu sync.Mutex
	// pending are the requests that no signer has answered yet.
	pending map[certificateKey]*pendingRequest
}

var _ pods.PodCertificateSource = (*Certificates)(nil)

// certificateKey is what two projections of the same certificate have in common.
type certificateKey struct {
	pod                          types.UID
	signer, keyType, annotations string
	maxSeconds                   int32
}

// entry names a certificate's entry in the cache.
func (k certificateKey) entry() offline.Entry {
	return offline.Entry{Kind: offline.PodCertificate, Pod: k.pod, Name: fmt.Sprintf("%s %s %d %s", k.signer, k.keyType, k.maxSeconds, k.annotations)}
}

// pendingRequest is a request at the API server, and its key.
type pendingRequest struct {
	name  string
	key   crypto.Signer
	since time.Time
}

// NewCertificates returns a source that has no certificate yet.
func NewCertificates(o Options) (*Certificates, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Certificates{options: o, kept: newKeeper(o, shelf[certificateKey, pods.PodCertificate]{entry: certificateKey.entry, expires: true}), pending: map[certificateKey]*pendingRequest{}}, nil
}

// PodCertificate returns a key and its certificate. It makes a new key and asks the signer that the
// projection names, if it has no certificate or the signer said to renew it; until there is a new
// one, it returns the old one while that is valid. The error says why there is none: the signer's
// refusal, with its reason, or [ErrWaitingForSigner].
func (c *Certificates) PodCertificate(ctx context.Context, pod *v1.Pod, p *v1.PodCertificateProjection) (pods.PodCertificate, error) {
	annotations, err := json.Marshal(p.UserAnnotations) // sorted
	if err != nil {
		return pods.PodCertificate{}, fmt.Errorf("pod certificate: userAnnotations: %w", err)
	}
	k := certificateKey{pod: pod.UID, signer: p.SignerName, keyType: p.KeyType, annotations: string(annotations)}
	if p.MaxExpirationSeconds != nil {
		k.maxSeconds = *p.MaxExpirationSeconds
	}
	got, err := c.kept.get(ctx, k, question[pods.PodCertificate]{
		ask: func(ctx context.Context) (answer[pods.PodCertificate], error) { return c.ask(ctx, pod, p, k) },
		log: []any{"podUID", pod.UID, "namespace", pod.Namespace, "signer", p.SignerName},
	})
	if err != nil {
		return pods.PodCertificate{}, fmt.Errorf("pod certificate of signer %q: %w", p.SignerName, err)
	}
	return got, nil
}

// Forget drops the keys and certificates of a pod that is gone. Without this call they are dropped
// some time after their last use.
func (c *Certificates) Forget(uid types.UID) {
	c.kept.drop(func(k certificateKey) bool { return k.pod == uid })
	forget(c.options.Cache, offline.PodCertificate, uid)
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.pending {
		if k.pod == uid {
			delete(c.pending, k)
		}
	}
}

// Renew does for certificates what [Source.Renew] does for tokens.
func (c *Certificates) Renew() (pods []types.UID) {
	for _, k := range c.kept.hasten() {
		pods = append(pods, k.pod)
	}
	return pods
}

// ask makes a request, or continues a pending one, and waits a while for its signer.
func (c *Certificates) ask(ctx context.Context, pod *v1.Pod, p *v1.PodCertificateProjection, k certificateKey) (answer[pods.PodCertificate], error) {
	request, err := c.request(ctx, pod, p, k)
	if err != nil {
		return answer[pods.PodCertificate]{}, err
	}
	for began := c.options.Clock.Now(); ; {
		found, err := c.look(ctx, pod, request)
		switch {
		case err == nil:
			c.finish(k)
			return found, nil
		case !errors.Is(err, ErrWaitingForSigner):
			if errors.Is(err, errRefusedBySigner) || answers.NotFound(err) {
				c.finish(k) // the next request has a new key
			}
			return answer[pods.PodCertificate]{}, err
		case c.options.Clock.Since(request.since) >= requestLife:
			c.finish(k)
			return answer[pods.PodCertificate]{}, err
		case c.options.Clock.Since(began) >= signerPatience:
			return answer[pods.PodCertificate]{}, err
		}
		if timing.Sleep(ctx, c.options.Clock, signerPeriod) != nil {
			return answer[pods.PodCertificate]{}, err
		}
	}
}

// finish forgets a request that was answered.
func (c *Certificates) finish(k certificateKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, k)
}

// request returns the pending request, and makes one if there is none. The keeper calls it for one
// caller at a time per key.
func (c *Certificates) request(ctx context.Context, pod *v1.Pod, p *v1.PodCertificateProjection, k certificateKey) (*pendingRequest, error) {
	c.mu.Lock()
	request := c.pending[k]
	now := c.options.Clock.Now()
	for other, r := range c.pending {
		if now.Sub(r.since) >= 2*requestLife {
			delete(c.pending, other) // its pod no longer asks
		}
	}
	c.mu.Unlock()
	if request != nil {
		return request, nil
	}
	key, err := newKey(p.KeyType)
	if err != nil {
		return nil, err
	}
	w, err := c.want(ctx, pod, p, key)
	if err != nil {
		return nil, err
	}
	name, err := c.create(ctx, pod.Namespace, w)
	if err != nil {
		return nil, err
	}
	request = &pendingRequest{name: name, key: key, since: now}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending[k] = request
	return request, nil
}

// look checks the state of a request.
func (c *Certificates) look(ctx context.Context, pod *v1.Pod, r *pendingRequest) (answer[pods.PodCertificate], error) {
	status, err := c.read(ctx, pod.Namespace, r.name)
	if err != nil {
		return answer[pods.PodCertificate]{}, err
	}
	if err := verdict(status.conditions); err != nil {
		return answer[pods.PodCertificate]{}, err
	}
	chain, err := checkChain(status.chain, r.key)
	if err != nil {
		return answer[pods.PodCertificate]{}, err
	}
	text, err := keyText(r.key)
	if err != nil {
		return answer[pods.PodCertificate]{}, err
	}
	if status.notAfter == nil {
		return answer[pods.PodCertificate]{}, errors.New("its signer did not say until when it is good")
	}
	now := c.options.Clock.Now()
	due := renewAt(now, status.beginRefreshAt, status.notAfter.Time)
	return answer[pods.PodCertificate]{value: pods.PodCertificate{Key: text, Chain: chain}, due: due, expires: status.notAfter.Time}, nil
}

// verdict returns nil for a request that was issued, and otherwise why it was not.
func verdict(conditions []metav1.Condition) error {
	for _, condition := range conditions {
		if condition.Status != metav1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case issuedType:
			return nil
		case deniedType, failedType:
			return fmt.Errorf("%w (%s, %s): %s", errRefusedBySigner, condition.Type, condition.Reason, strconv.QuoteToGraphic(condition.Message))
		}
	}
	return ErrWaitingForSigner
}
