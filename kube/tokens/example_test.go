package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/podwright/podwright/kube/tokens"
	"github.com/podwright/podwright/runtime/pods"
)

// An agent gives the source to its engine, which then makes projected volumes with tokens.
func Example() {
	api := fake.NewClientset()
	api.PrependReactor("create", "serviceaccounts", func(a clienttesting.Action) (bool, k8sruntime.Object, error) {
		request := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest)
		request.Status.Token = "a token for " + request.Spec.BoundObjectRef.Name
		return true, request, nil
	})
	source, err := tokens.New(tokens.Options{Client: api})
	if err != nil {
		fmt.Println(err)
		return
	}
	projections := pods.Projections{Token: source} // Config.Pods.Projections
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-1"},
		Spec:       v1.PodSpec{ServiceAccountName: "robot"},
	}
	token, err := projections.Token.Token(context.Background(), pod, &v1.ServiceAccountTokenProjection{Audience: "vault", Path: "token"})
	fmt.Println(token, err)
	// Output: a token for web <nil>
}

// A bundle of trust anchors by its name; the cluster has none here, and the pod would wait.
func ExampleBundles() {
	bundles, err := tokens.NewBundles(tokens.Options{Client: fake.NewClientset()})
	if err != nil {
		fmt.Println(err)
		return
	}
	name := "partners"
	_, err = bundles.TrustBundle(context.Background(), &v1.Pod{}, &v1.ClusterTrustBundleProjection{Name: &name, Path: "ca.pem"})
	fmt.Println(err)
	// Output: trust bundle "partners": not found: there is no such object
}

// A certificate of a signer that has not answered yet: the pod waits, with this reason.
func ExampleCertificates() {
	api := fake.NewClientset(
		&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "robot"}},
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-1"}},
	)
	certificates, err := tokens.NewCertificates(tokens.Options{Client: api})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-1"},
		Spec:       v1.PodSpec{ServiceAccountName: "robot", NodeName: "edge-1"},
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = certificates.PodCertificate(ctx, pod, &v1.PodCertificateProjection{SignerName: "example.com/mesh", KeyType: "ED25519"})
	fmt.Println(errors.Is(err, tokens.ErrWaitingForSigner), err)
	// Output: true pod certificate of signer "example.com/mesh": its signer has not answered yet
}

// A service account of the API server, for what depends on more than a token.
func ExampleAccounts() {
	accounts, err := tokens.NewAccounts(tokens.Options{Client: fake.NewClientset(
		&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "robot", Annotations: map[string]string{"example.com/role": "reader"}}},
	)})
	if err != nil {
		fmt.Println(err)
		return
	}
	account, err := accounts.ServiceAccount(context.Background(), "default", "robot")
	fmt.Println(account.Annotations["example.com/role"], err)
	// Output: reader <nil>
}
