package certs_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clientv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"

	"github.com/podwright/podwright/kube/certs"
)

// A node's clients go through a transport that has the certificate of the moment. Until the first one is
// issued their requests fail, and the error says why.
func Example() {
	dir, err := os.MkdirTemp("", "pki")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bootstrap := fake.NewClientset() // in earnest: a client with a bootstrap token
	keeper, err := certs.New(certs.Options{
		Dir: dir, Name: "kubelet-client", Signer: certs.ClientSigner,
		Wanted: func() *x509.CertificateRequest { return certs.ClientRequest("edge-1") },
		Client: func(*tls.Certificate) (clientv1.CertificateSigningRequestInterface, error) {
			return bootstrap.CertificatesV1().CertificateSigningRequests(), nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// In earnest keeper.Run(ctx) runs beside the clients.
	transport, err := certs.NewTransport(&rest.Config{Host: "https://192.0.2.1"}, keeper.Certificate)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := kubernetes.NewForConfig(transport.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.CoreV1().RESTClient().Get().AbsPath("/version").DoRaw(context.Background())
	fmt.Println(errors.Is(err, certs.ErrNone))
	// Output: true
}
