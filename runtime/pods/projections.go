package pods

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/pods/internal/payload"
)

// Projections makes the sources of projected volumes that need an API server
// (spec/runtime.md 25). Pods with a source whose maker is nil wait, with a reason that says so.
//
// What the makers return is treated as a secret: it is on a memory file system where the agent
// may mount one, and appears in no log, event, error or record. Makers are called from many
// goroutines at once, at every start and at least every minute for a running pod, so they
// should cache what they have made and return it while it is valid. They may block, must
// return soon after ctx ends, and must not change pods or sources. After an error the pod's
// containers wait, or a volume that exists already keeps its content; errors are shown to
// users and must not quote secrets.
type Projections struct {
	Token          TokenSource
	TrustBundle    TrustBundleSource
	PodCertificate PodCertificateSource
}

// TokenSource makes tokens of service accounts, as the TokenRequest API does.
type TokenSource interface {
	// Token returns a token for the pod that stays valid for a while: for at least a fifth of
	// the lifetime that s asks for, if the source can get one.
	Token(ctx context.Context, pod *v1.Pod, s *v1.ServiceAccountTokenProjection) (string, error)
}

// TrustBundleSource makes bundles of trust anchors.
type TrustBundleSource interface {
	// TrustBundle returns the bundle as PEM. If it does not exist, the error must match
	// runtime.ErrNotFound; an optional bundle is then an empty file.
	TrustBundle(ctx context.Context, pod *v1.Pod, s *v1.ClusterTrustBundleProjection) ([]byte, error)
}

// PodCertificateSource makes keys with certificates for pods.
type PodCertificateSource interface {
	// PodCertificate returns a key and the chain of its certificate, leaf first.
	PodCertificate(ctx context.Context, pod *v1.Pod, s *v1.PodCertificateProjection) (PodCertificate, error)
}

// PodCertificate is a private key and its certificates, as PEM.
type PodCertificate struct {
	Key, Chain []byte
}

// podProjections makes the projections of one pod.
type podProjections struct {
	makers Projections
	pod    *v1.Pod
}

var _ payload.Projections = podProjections{}

func (p podProjections) Token(ctx context.Context, s *v1.ServiceAccountTokenProjection) (string, error) {
	if p.makers.Token == nil {
		return "", payload.ErrNoSource
	}
	return p.makers.Token.Token(ctx, p.pod, s)
}

func (p podProjections) TrustBundle(ctx context.Context, s *v1.ClusterTrustBundleProjection) ([]byte, error) {
	if p.makers.TrustBundle == nil {
		return nil, payload.ErrNoSource
	}
	return p.makers.TrustBundle.TrustBundle(ctx, p.pod, s)
}

func (p podProjections) PodCertificate(ctx context.Context, s *v1.PodCertificateProjection) (key, chain []byte, err error) {
	if p.makers.PodCertificate == nil {
		return nil, nil, payload.ErrNoSource
	}
	c, err := p.makers.PodCertificate.PodCertificate(ctx, p.pod, s)
	return c.Key, c.Chain, err
}
