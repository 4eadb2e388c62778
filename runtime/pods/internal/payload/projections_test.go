package payload_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/payload"
)

// issuer makes everything; what the pod names "broken" or "absent" it does not have.
type issuer struct{}

func (issuer) Token(_ context.Context, s *v1.ServiceAccountTokenProjection) (string, error) {
	switch s.Audience {
	case "broken":
		return "", errors.New("the server is down")
	case "empty":
		return "", nil
	}
	return "token for " + s.Audience, nil
}

func (issuer) TrustBundle(_ context.Context, s *v1.ClusterTrustBundleProjection) ([]byte, error) {
	if *s.Name == "absent" {
		return nil, fmt.Errorf("trust bundle %q: %w", *s.Name, runtime.ErrNotFound)
	}
	return []byte("CA"), nil
}

func (issuer) PodCertificate(_ context.Context, s *v1.PodCertificateProjection) (key, chain []byte, err error) {
	switch s.SignerName {
	case "broken":
		return nil, nil, errors.New("denied")
	case "keyless":
		return nil, []byte("CHAIN\n"), nil
	case "chainless":
		return []byte("KEY\n"), nil, nil
	}
	return []byte("KEY\n"), []byte("CHAIN\n"), nil
}

func token(audience, path string) v1.VolumeProjection {
	return v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Audience: audience, Path: path}}
}

func bundle(name string, optional bool) v1.VolumeProjection {
	return v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: &name, Path: "ca", Optional: &optional}}
}

func certificate(s v1.PodCertificateProjection) v1.VolumeProjection {
	return v1.VolumeProjection{PodCertificate: &s}
}

// 25.1: tokens, bundles and certificates become files; without a source, or with one that
// fails, the volume is not made.
func TestProjectionsBecomeFiles(t *testing.T) {
	for _, tc := range []struct {
		name    string
		source  v1.VolumeProjection
		without bool // a source
		want    string
		err     string
	}{
		{"token", token("vault", "a/token"), false, "a/token=644:token for vault", ""},
		{"no source of tokens", token("vault", "token"), true, "", "serviceAccountToken needs an API server"},
		{"no token", token("broken", "token"), false, "", "serviceAccountToken: the server is down"},
		{"empty token", token("empty", "token"), false, "", "is empty"},
		{"token outside", token("vault", "../token"), false, "", "must not contain '..'"},
		{"bundle", bundle("b", false), false, "ca=644:CA", ""},
		{"no bundle", bundle("absent", false), false, "", `trust bundle "absent"`},
		{"optional bundle", bundle("absent", true), false, "ca=644:", ""},
		{"no source of bundles", bundle("b", true), true, "", "clusterTrustBundle needs an API server"},
		{"certificate in one file", certificate(v1.PodCertificateProjection{CredentialBundlePath: "all"}), false, "all=644:KEY\nCHAIN\n", ""},
		{"certificate in two files", certificate(v1.PodCertificateProjection{KeyPath: "k", CertificateChainPath: "c"}), false, "c=644:CHAIN\n k=644:KEY\n", ""},
		{"certificate in no file", certificate(v1.PodCertificateProjection{}), false, "", "names no path"},
		{"no certificate", certificate(v1.PodCertificateProjection{SignerName: "broken", KeyPath: "k"}), false, "", "podCertificate: denied"},
		{"no key", certificate(v1.PodCertificateProjection{SignerName: "keyless", CredentialBundlePath: "all"}), false, "", "is empty"},
		{"no chain", certificate(v1.PodCertificateProjection{SignerName: "chainless", KeyPath: "k"}), false, "", "is empty"},
		{"no signer", certificate(v1.PodCertificateProjection{KeyPath: "k"}), true, "", "podCertificate needs an API server"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := payload.Input{Pod: &v1.Pod{Spec: v1.PodSpec{Containers: make([]v1.Container, 1)}}, Objects: objects{}}
			if !tc.without {
				in.Projections = issuer{}
			}
			v := &v1.Volume{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{tc.source}}}}
			files, err := payload.Files(t.Context(), in, v)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("err %v, want %q", err, tc.err)
			}
			var got []string
			for _, path := range slices.Sorted(maps.Keys(files)) {
				got = append(got, fmt.Sprintf("%s=%o:%s", path, files[path].Mode, files[path].Data))
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("files %q, want %q", s, tc.want)
			}
		})
	}
}

// 25.3: a token belongs to its pod's user alone if all containers run as one; with fsGroup the
// group may read it; otherwise the volume's mode applies.
func TestTokenBelongsToThePodsUser(t *testing.T) {
	user := func(id int64) *v1.SecurityContext { return &v1.SecurityContext{RunAsUser: &id} }
	for _, tc := range []struct {
		name   string
		change func(*v1.PodSpec)
		want   string
	}{
		{"nothing said", func(*v1.PodSpec) {}, "644"},
		{"mode of the volume", func(s *v1.PodSpec) { s.Volumes[0].Projected.DefaultMode = ptr.To[int32](0o444) }, "444"},
		{"the pod's user", func(s *v1.PodSpec) { s.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr.To[int64](7)} }, "600 of 7"},
		{"one user in all containers", func(s *v1.PodSpec) {
			s.InitContainers[0].SecurityContext, s.Containers[0].SecurityContext, s.Containers[1].SecurityContext = user(8), user(8), user(8)
		}, "600 of 8"},
		{"two users", func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr.To[int64](7)}
			s.InitContainers[0].SecurityContext = user(8)
		}, "644"},
		{"one container without a user", func(s *v1.PodSpec) {
			s.InitContainers[0].SecurityContext, s.Containers[0].SecurityContext = user(8), user(8)
		}, "644"},
		{"ephemeral containers do not count", func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr.To[int64](7)}
			s.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{SecurityContext: user(9)}}}
		}, "600 of 7"},
		{"fsGroup", func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](5)}
			s.Volumes[0].Projected.DefaultMode = ptr.To[int32](0o644)
		}, "600"}, // to which the volume's group adds 0440
		{"fsGroup and user", func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](5), RunAsUser: ptr.To[int64](7)}
		}, "600 of 7"},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{
			InitContainers: make([]v1.Container, 1), Containers: make([]v1.Container, 2),
			Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{token("a", "token")}}}}},
		}}
		tc.change(&pod.Spec)
		files, err := payload.Files(t.Context(), payload.Input{Pod: pod, Projections: issuer{}}, &pod.Spec.Volumes[0])
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		got := fmt.Sprintf("%o", files["token"].Mode)
		if u := files["token"].User; u != nil {
			got += fmt.Sprintf(" of %d", *u)
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
