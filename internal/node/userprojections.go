package node

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/runtime/pods"
)

// issuing returns the limits of calls that make something for one pod: its volume waits no longer
// than for a config map, and a later call joins one that is still in progress.
func issuing() foreign.Limits { return foreign.Limits{Wait: problem.FunctionLimit, Join: true} }

// podCall is a call of a user's function for one pod, to make something about object.
func podCall(name string, pod *v1.Pod, object string) foreign.Call {
	return foreign.Call{
		Kind: problem.Function, Name: name, UID: pod.UID, Pod: problem.Of(pod.Namespace, pod.Name, pod.UID), Object: object,
		Patience: problem.FunctionLimit,
	}
}

// projected names what is made for one projection, without showing more of it than its path. Calls of
// one name are joined, so projections that differ in anything, such as the audience, differ in name.
func projected(path string, projection any) string {
	all, err := json.Marshal(projection)
	if err != nil {
		all = fmt.Append(nil, projection)
	}
	sum := sha256.Sum256(all)
	return fmt.Sprintf("%s (%x)", path, sum[:8])
}

// Projections wraps what makes tokens, trust bundles and certificates; nil makers stay nil. What is
// not made within 10 s is requested again.
func (u Users) Projections(p pods.Projections) pods.Projections {
	var out pods.Projections
	if p.Token != nil {
		out.Token = userTokens{u, p.Token}
	}
	if p.TrustBundle != nil {
		out.TrustBundle = userBundles{u, p.TrustBundle}
	}
	if p.PodCertificate != nil {
		out.PodCertificate = userCertificates{u, p.PodCertificate}
	}
	return out
}

type userTokens struct {
	users  Users
	source pods.TokenSource
}

func (t userTokens) Token(ctx context.Context, pod *v1.Pod, s *v1.ServiceAccountTokenProjection) (string, error) {
	return foreign.Ask(ctx, t.users.Calls, podCall("Pods.Projections.Token", pod, projected(s.Path, s)), issuing(), func(ctx context.Context) (string, error) {
		return t.source.Token(ctx, pod, s)
	})
}

type userBundles struct {
	users  Users
	source pods.TrustBundleSource
}

func (b userBundles) TrustBundle(ctx context.Context, pod *v1.Pod, s *v1.ClusterTrustBundleProjection) ([]byte, error) {
	return foreign.Ask(ctx, b.users.Calls, podCall("Pods.Projections.TrustBundle", pod, projected(s.Path, s)), issuing(), func(ctx context.Context) ([]byte, error) {
		return b.source.TrustBundle(ctx, pod, s)
	})
}

type userCertificates struct {
	users  Users
	source pods.PodCertificateSource
}

func (c userCertificates) PodCertificate(ctx context.Context, pod *v1.Pod, s *v1.PodCertificateProjection) (pods.PodCertificate, error) {
	object := projected(s.CredentialBundlePath+s.KeyPath, s)
	return foreign.Ask(ctx, c.users.Calls, podCall("Pods.Projections.PodCertificate", pod, object), issuing(), func(ctx context.Context) (pods.PodCertificate, error) {
		return c.source.PodCertificate(ctx, pod, s)
	})
}

// ImageCredentials wraps a source of registry credentials, or returns nil for nil. After 70 s,
// which is longer than a credential plugin may take, the image is pulled without them.
func (u Users) ImageCredentials(source pods.ImageCredentials) pods.ImageCredentials {
	if source == nil {
		return nil
	}
	return userCredentials{u, source}
}

type userCredentials struct {
	users  Users
	source pods.ImageCredentials
}

func (c userCredentials) Credentials(ctx context.Context, pod *v1.Pod, image string) ([]pods.ImageCredential, error) {
	call, limits := podCall("Pods.ImagePull.Credentials", pod, image), issuing()
	call.Patience, limits.Wait = problem.CredentialsLimit, problem.CredentialsLimit
	return foreign.Ask(ctx, c.users.Calls, call, limits, func(ctx context.Context) ([]pods.ImageCredential, error) {
		return c.source.Credentials(ctx, pod, image)
	})
}

// Grants wraps what gives containers CPUs and devices, or returns nil for nil. A call that ignores
// the end of its context is left behind.
func (u Users) Grants(g pods.Grants) pods.Grants {
	if g == nil {
		return nil
	}
	return userGrants{u, g}
}

type userGrants struct {
	users  Users
	grants pods.Grants
}

func (g userGrants) Grant(ctx context.Context, pod *v1.Pod, c *v1.Container) (pods.Grant, error) {
	return foreign.Ask(ctx, g.users.Calls, podCall("Pods.Grants.Grant", pod, c.Name), issuing(), func(ctx context.Context) (pods.Grant, error) {
		return g.grants.Grant(ctx, pod, c)
	})
}

// Release takes back what a pod has. As with volumes, no new life of the pod begins until it returns (IN3).
func (g userGrants) Release(ctx context.Context, uid types.UID) error {
	call := foreign.Call{Kind: problem.Function, Name: "Pods.Grants.Release", UID: uid, Patience: problem.RemovalLimit}
	_, err := foreign.Ask(ctx, g.users.Calls, call, foreign.Limits{Join: true}, func(ctx context.Context) (struct{}, error) {
		_, done, _ := g.users.Hold(ctx, uid, "release grants")
		defer done()
		return struct{}{}, g.grants.Release(ctx, uid)
	})
	return err
}
