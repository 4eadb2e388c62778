//go:build apiserver

package tokens_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/apitest"
	"github.com/podwright/podwright/kube/tokens"
	"github.com/podwright/podwright/runtime/pods"
)

// sign answers the first request of the default namespace.
func sign(ctx context.Context, t *testing.T, admin *kubernetes.Clientset) {
	t.Helper()
	requests := admin.CertificatesV1beta1().PodCertificateRequests(v1.NamespaceDefault)
	list, err := requests.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d requests, err %v", len(list.Items), err)
	}
	r := &list.Items[0]
	csr, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now().Truncate(time.Second)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.Add(2 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, ca)
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: from.Add(d)} }
	r.Status.Conditions = []metav1.Condition{{Type: "Issued", Status: metav1.ConditionTrue, Reason: "Test", Message: "issued", LastTransitionTime: metav1.Now()}}
	r.Status.CertificateChain = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	r.Status.NotBefore, r.Status.BeginRefreshAt, r.Status.NotAfter = at(0), at(time.Hour), at(2*time.Hour)
	if _, err := requests.UpdateStatus(ctx, r, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// KK8, KW4: on a real API server of 1.36, which has the beta version alone, as system:node.
func TestAPIServerCertificates(t *testing.T) {
	cluster := apitest.Start(t, apitest.Options{Args: []string{
		"--feature-gates=PodCertificateRequest=true", "--runtime-config=certificates.k8s.io/v1beta1/podcertificaterequests=true",
	}})
	admin, node := kubernetes.NewForConfigOrDie(cluster.Admin()), kubernetes.NewForConfigOrDie(cluster.Node("edge-1"))
	ctx, p := t.Context(), wanted()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := admin.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-1"}}, metav1.CreateOptions{})
	check(err)
	_, err = admin.CoreV1().ServiceAccounts(v1.NamespaceDefault).Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	check(err)
	pod, err := admin.CoreV1().Pods(v1.NamespaceDefault).Create(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1.PodSpec{
		NodeName: "edge-1", ServiceAccountName: "robot", Containers: []v1.Container{{Name: "app", Image: "example.com/app:1"}},
		Volumes: []v1.Volume{{Name: "certificate", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
			Sources: []v1.VolumeProjection{{PodCertificate: p}},
		}}}},
	}}, metav1.CreateOptions{})
	check(err)
	certificates, err := tokens.NewCertificates(tokens.Options{Client: node})
	check(err)
	limited, cancel := context.WithTimeout(ctx, patience.Of(time.Minute))
	defer cancel()
	get := func(until func(error) bool) (got pods.PodCertificate) {
		for {
			got, err := certificates.PodCertificate(limited, pod, p)
			if until(err) {
				return got
			}
			if timing.Sleep(limited, clock.RealClock{}, 200*time.Millisecond) != nil {
				t.Fatal(err)
			}
		}
	}
	get(func(err error) bool { return errors.Is(err, tokens.ErrWaitingForSigner) })
	sign(ctx, t, admin)
	if got := get(func(err error) bool { return err == nil }); good(got) != nil {
		t.Error(good(got))
	}
}
