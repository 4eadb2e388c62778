//go:build apiserver

package tokens_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/kube/apitest"
	"github.com/podwright/podwright/kube/tokens"
	"github.com/podwright/podwright/runtime/cri"
)

// authority makes a certificate that signs others.
func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// KK7, KW4: on a real API server of 1.36, which has the beta version alone, as system:node.
func TestAPIServerBundles(t *testing.T) {
	cluster := apitest.Start(t, apitest.Options{Args: []string{
		"--feature-gates=ClusterTrustBundle=true", "--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true",
	}})
	admin, node := kubernetes.NewForConfigOrDie(cluster.Admin()), kubernetes.NewForConfigOrDie(cluster.Node("edge-1"))
	root, other := authority(t), authority(t)
	for name, spec := range map[string]certificatesv1beta1.ClusterTrustBundleSpec{
		"plain":           {TrustBundle: root},
		"example.com:s:1": {SignerName: "example.com/s", TrustBundle: root + other},
		"example.com:s:2": {SignerName: "example.com/s", TrustBundle: other},
	} {
		if _, err := admin.CertificatesV1beta1().ClusterTrustBundles().Create(t.Context(), &certificatesv1beta1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"live": "yes"}}, Spec: spec,
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	bundles, err := tokens.NewBundles(tokens.Options{Client: node})
	if err != nil {
		t.Fatal(err)
	}
	live := &metav1.LabelSelector{MatchLabels: map[string]string{"live": "yes"}}
	for _, tc := range []struct {
		p    v1.ClusterTrustBundleProjection
		size int
	}{
		{v1.ClusterTrustBundleProjection{Name: ptr.To("plain")}, len(root)},
		{v1.ClusterTrustBundleProjection{SignerName: ptr.To("example.com/s"), LabelSelector: live}, len(root) + len(other)},
	} {
		if got, err := bundles.TrustBundle(t.Context(), nil, &tc.p); err != nil || len(got) != tc.size {
			t.Errorf("KK7: %d bytes, want %d, err %v", len(got), tc.size, err)
		}
	}
	if _, err := bundles.TrustBundle(t.Context(), nil, &v1.ClusterTrustBundleProjection{Name: ptr.To("none")}); !cri.IsNotFound(err) {
		t.Errorf("KK7: err %v", err)
	}
}

// KK7: a server without trust bundles says so in a way that names no object.
func TestAPIServerWithoutBundles(t *testing.T) {
	cluster := apitest.Start(t, apitest.Options{})
	bundles, err := tokens.NewBundles(tokens.Options{Client: kubernetes.NewForConfigOrDie(cluster.Admin())})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bundles.TrustBundle(t.Context(), nil, &v1.ClusterTrustBundleProjection{Name: ptr.To("plain")})
	if !cri.IsNotFound(err) {
		t.Errorf("KK7: err %v", err)
	}
	asNode, err := tokens.NewBundles(tokens.Options{Client: kubernetes.NewForConfigOrDie(cluster.Node("edge-1"))})
	if err != nil {
		t.Fatal(err)
	}
	_, err = asNode.TrustBundle(t.Context(), nil, &v1.ClusterTrustBundleProjection{Name: ptr.To("plain")})
	t.Logf("to a node: %v", err)
	if err == nil {
		t.Error("KK7: a bundle of a server without")
	}
}
