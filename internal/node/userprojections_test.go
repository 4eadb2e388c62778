package node

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/pods"
)

// mute answers no question before it is released; "panics" panics.
type mute struct{ release chan struct{} }

func (m mute) wait(pod types.UID) {
	if pod == "panics" {
		panic("no answer")
	}
	if pod == "hangs" {
		<-m.release
	}
}

func (m mute) Token(_ context.Context, p *v1.Pod, _ *v1.ServiceAccountTokenProjection) (string, error) {
	m.wait(p.UID)
	return "token", nil
}

func (m mute) TrustBundle(_ context.Context, p *v1.Pod, _ *v1.ClusterTrustBundleProjection) ([]byte, error) {
	m.wait(p.UID)
	return []byte("anchors"), nil
}

func (m mute) PodCertificate(_ context.Context, p *v1.Pod, _ *v1.PodCertificateProjection) (pods.PodCertificate, error) {
	m.wait(p.UID)
	return pods.PodCertificate{Key: []byte("key")}, nil
}

func (m mute) Credentials(_ context.Context, p *v1.Pod, _ string) ([]pods.ImageCredential, error) {
	m.wait(p.UID)
	return []pods.ImageCredential{{Username: "u"}}, nil
}

func (m mute) Grant(_ context.Context, p *v1.Pod, _ *v1.Container) (pods.Grant, error) {
	m.wait(p.UID)
	return pods.Grant{CPUs: "1"}, nil
}

func (m mute) Release(_ context.Context, uid types.UID) error {
	m.wait(uid)
	return nil
}

// TestIssuersThatDoNotAnswerHoldTheirPodAlone: IN6. What makes tokens, certificates and grants is
// waited for 10 s, credentials 70 s; a panic is an error; other pods are served meanwhile.
func TestIssuersThatDoNotAnswerHoldTheirPodAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, m := newUsers(), mute{make(chan struct{})}
		projections, creds, grants := u.Projections(pods.Projections{Token: m, TrustBundle: m, PodCertificate: m}), u.ImageCredentials(m), u.Grants(m)
		for name, call := range map[string]func(p *v1.Pod) (bool, error){
			"token": func(p *v1.Pod) (bool, error) {
				got, err := projections.Token.Token(t.Context(), p, &v1.ServiceAccountTokenProjection{})
				return got == "token", err
			},
			"bundle": func(p *v1.Pod) (bool, error) {
				got, err := projections.TrustBundle.TrustBundle(t.Context(), p, &v1.ClusterTrustBundleProjection{})
				return string(got) == "anchors", err
			},
			"certificate": func(p *v1.Pod) (bool, error) {
				got, err := projections.PodCertificate.PodCertificate(t.Context(), p, &v1.PodCertificateProjection{})
				return string(got.Key) == "key", err
			},
			"credentials": func(p *v1.Pod) (bool, error) {
				got, err := creds.Credentials(t.Context(), p, "image")
				return len(got) == 1, err
			},
			"grant": func(p *v1.Pod) (bool, error) {
				got, err := grants.Grant(t.Context(), p, &v1.Container{})
				return got.CPUs == "1", err
			},
			"release": func(p *v1.Pod) (bool, error) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				err := grants.Release(ctx, p.UID)
				return err == nil, err
			},
		} {
			pod := func(uid types.UID) *v1.Pod { return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }
			began, limit := time.Now(), 10*time.Second
			if name == "credentials" {
				limit = 70 * time.Second // a credential plugin may take a minute
			}
			if ok, err := call(pod("hangs")); ok || err == nil || time.Since(began) != limit {
				t.Errorf("%s that hangs: %v, %v after %v", name, ok, err, time.Since(began))
			}
			if ok, err := call(pod("panics")); ok || err == nil {
				t.Errorf("%s that panics: %v, %v", name, ok, err)
			}
			if ok, err := call(pod("web")); !ok || err != nil {
				t.Errorf("%s of another pod: %v, %v", name, ok, err)
			}
		}
		close(m.release)
		synctest.Wait()
		if none := u.Projections(pods.Projections{}); none != (pods.Projections{}) || u.Grants(nil) != nil || u.ImageCredentials(nil) != nil {
			t.Error("nothing was made something")
		}
	})
}

// askedFor makes slowly what says what it was asked for.
type askedFor struct{}

func (askedFor) Token(_ context.Context, _ *v1.Pod, s *v1.ServiceAccountTokenProjection) (string, error) {
	<-time.After(time.Second)
	return s.Audience, nil
}

func (askedFor) TrustBundle(_ context.Context, _ *v1.Pod, s *v1.ClusterTrustBundleProjection) ([]byte, error) {
	<-time.After(time.Second)
	return []byte(*s.SignerName), nil
}

func (askedFor) PodCertificate(_ context.Context, _ *v1.Pod, s *v1.PodCertificateProjection) (pods.PodCertificate, error) {
	<-time.After(time.Second)
	return pods.PodCertificate{Key: []byte(s.SignerName)}, nil
}

// TestProjectionsOfOnePathAreKeptApart: two volumes of a pod may want something different under the
// same path at the same time, such as tokens for two audiences. Each gets its own.
func TestProjectionsOfOnePathAreKeptApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newUsers().Projections(pods.Projections{Token: askedFor{}, TrustBundle: askedFor{}, PodCertificate: askedFor{}})
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u1"}}
		var wg sync.WaitGroup
		for _, want := range []string{"vault", "kube"} {
			check := func(what, got string, err error) {
				if got != want || err != nil {
					t.Errorf("%s: wanted the one of %s, got that of %q, err %v", what, want, got, err)
				}
			}
			wg.Go(func() {
				got, err := p.Token.Token(t.Context(), pod, &v1.ServiceAccountTokenProjection{Audience: want, Path: "token"})
				check("token", got, err)
			})
			wg.Go(func() {
				got, err := p.TrustBundle.TrustBundle(t.Context(), pod, &v1.ClusterTrustBundleProjection{SignerName: &want, Path: "ca"})
				check("bundle", string(got), err)
			})
			wg.Go(func() {
				got, err := p.PodCertificate.PodCertificate(t.Context(), pod, &v1.PodCertificateProjection{SignerName: want, KeyPath: "key"})
				check("certificate", string(got.Key), err)
			})
		}
		wg.Wait()
	})
}
