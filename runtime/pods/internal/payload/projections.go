package payload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// Projections makes what only an API server can give to one pod. The error is [ErrNoSource] if
// nothing can make it; [cri.IsNotFound] recognizes the error for a trust bundle that does not exist.
type Projections interface {
	Token(ctx context.Context, s *v1.ServiceAccountTokenProjection) (string, error)
	TrustBundle(ctx context.Context, s *v1.ClusterTrustBundleProjection) ([]byte, error)
	PodCertificate(ctx context.Context, s *v1.PodCertificateProjection) (key, chain []byte, err error)
}

// ErrNoSource says that nothing makes the wanted kind of projection.
var ErrNoSource = errors.New("no source is configured")

// tokenMode is the mode of what is issued to a pod with a known user or group.
const tokenMode = 0o600

// issued makes the files of a token, a trust bundle or a certificate (spec/runtime.md 25).
func (in Input) issued(ctx context.Context, s v1.VolumeProjection, mode *int32) (map[string]poddir.File, error) {
	bits, user, err := issuedTo(in.Pod, mode)
	if err != nil {
		return nil, err
	}
	files := map[string]poddir.File{}
	put := func(path string, data []byte) error {
		files[path] = poddir.File{Data: data, Mode: bits, User: user}
		return checkPath(path)
	}
	kind := "an unknown source"
	switch {
	case s.ServiceAccountToken != nil:
		kind = "serviceAccountToken"
		var token string
		if token, err = in.token(ctx, s.ServiceAccountToken); err == nil {
			err = put(s.ServiceAccountToken.Path, []byte(token))
		}
	case s.ClusterTrustBundle != nil:
		kind = "clusterTrustBundle"
		var bundle []byte
		if bundle, err = in.trustBundle(ctx, s.ClusterTrustBundle); err == nil {
			err = put(s.ClusterTrustBundle.Path, bundle)
		}
	case s.PodCertificate != nil:
		kind = "podCertificate"
		err = in.podCertificate(ctx, s.PodCertificate, put)
	default:
		err = ErrNoSource
	}
	if errors.Is(err, ErrNoSource) {
		return nil, fmt.Errorf("projected: %s needs an API server, and there is none: remove it, or set automountServiceAccountToken to false", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("projected: %s: %w", kind, err)
	}
	return files, nil
}

func (in Input) token(ctx context.Context, s *v1.ServiceAccountTokenProjection) (string, error) {
	if in.Projections == nil {
		return "", ErrNoSource
	}
	token, err := in.Projections.Token(ctx, s)
	if err == nil && token == "" {
		err = errors.New("the token is empty")
	}
	return token, err
}

// trustBundle returns a bundle. An optional one that does not exist is an empty file.
func (in Input) trustBundle(ctx context.Context, s *v1.ClusterTrustBundleProjection) ([]byte, error) {
	if in.Projections == nil {
		return nil, ErrNoSource
	}
	bundle, err := in.Projections.TrustBundle(ctx, s)
	if err != nil && s.Optional != nil && *s.Optional && cri.IsNotFound(err) {
		return nil, nil
	}
	return bundle, err
}

func (in Input) podCertificate(ctx context.Context, s *v1.PodCertificateProjection, put func(path string, data []byte) error) error {
	if in.Projections == nil {
		return ErrNoSource
	}
	if s.CredentialBundlePath == "" && s.KeyPath == "" && s.CertificateChainPath == "" {
		return errors.New("it names no path")
	}
	key, chain, err := in.Projections.PodCertificate(ctx, s)
	if err == nil && (len(key) == 0 || len(chain) == 0) {
		err = errors.New("the key or the certificate chain is empty")
	}
	if err != nil {
		return err
	}
	for _, f := range []struct {
		path string
		data []byte
	}{
		{s.CredentialBundlePath, append(append([]byte(nil), key...), chain...)},
		{s.KeyPath, key},
		{s.CertificateChainPath, chain},
	} {
		if f.path == "" {
			continue
		}
		if err := put(f.path, f.data); err != nil {
			return err
		}
	}
	return nil
}

// issuedTo returns mode and owner of what is issued to a pod (spec/runtime.md 25.3).
func issuedTo(pod *v1.Pod, mode *int32) (fs.FileMode, *int64, error) {
	user := soleUser(pod)
	grouped := pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.FSGroup != nil
	if user != nil || grouped {
		return tokenMode, user, nil
	}
	bits, err := fileMode(nil, mode)
	return bits, nil, err
}

// soleUser returns the user that all containers of a pod run as by their specs, nil if there is no
// such user. Ephemeral containers do not count: they are added when the files are already there.
func soleUser(pod *v1.Pod) *int64 {
	var whole, sole *int64
	if pod.Spec.SecurityContext != nil {
		whole = pod.Spec.SecurityContext.RunAsUser
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			user := whole
			if sc := list[i].SecurityContext; sc != nil && sc.RunAsUser != nil {
				user = sc.RunAsUser
			}
			if user == nil || sole != nil && *sole != *user {
				return nil
			}
			sole = user
		}
	}
	return sole
}
