package tokens

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Conditions of requests.
const (
	issuedType = certificatesv1.PodCertificateRequestConditionTypeIssued
	deniedType = certificatesv1.PodCertificateRequestConditionTypeDenied
	failedType = certificatesv1.PodCertificateRequestConditionTypeFailed
)

// requestStatus has the fields of a request's status that both versions of the API have.
type requestStatus struct {
	conditions               []metav1.Condition
	chain                    string
	beginRefreshAt, notAfter *metav1.Time
}

// want returns what a request asks for. The API server checks that the UIDs are those of the pod,
// its service account and its node.
func (c *Certificates) want(ctx context.Context, pod *v1.Pod, p *v1.PodCertificateProjection, key crypto.Signer) (certificatesv1.PodCertificateRequestSpec, error) {
	none := certificatesv1.PodCertificateRequestSpec{}
	if pod.Spec.ServiceAccountName == "" {
		return none, errors.New("the pod has no service account")
	}
	core := c.options.Client.CoreV1()
	account, err := core.ServiceAccounts(pod.Namespace).Get(ctx, pod.Spec.ServiceAccountName, metav1.GetOptions{})
	if err != nil {
		return none, err
	}
	node, err := core.Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return none, err
	}
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return none, err
	}
	return certificatesv1.PodCertificateRequestSpec{
		SignerName: p.SignerName, PodName: pod.Name, PodUID: pod.UID,
		ServiceAccountName: account.Name, ServiceAccountUID: account.UID, NodeName: types.NodeName(node.Name), NodeUID: node.UID,
		MaxExpirationSeconds: p.MaxExpirationSeconds, StubPKCS10Request: stub, UnverifiedUserAnnotations: p.UserAnnotations,
	}, nil
}

const generatedName = "podwright-"

// create makes a request, by the newest version of the API that the server has.
func (c *Certificates) create(ctx context.Context, namespace string, w certificatesv1.PodCertificateRequestSpec) (name string, err error) {
	meta := metav1.ObjectMeta{Namespace: namespace, GenerateName: generatedName}
	made, err := c.options.Client.CertificatesV1().PodCertificateRequests(namespace).Create(ctx,
		&certificatesv1.PodCertificateRequest{ObjectMeta: meta, Spec: w}, metav1.CreateOptions{})
	if err == nil {
		return made.Name, nil
	}
	if !unserved(err) {
		return "", err
	}
	beta, err := c.options.Client.CertificatesV1beta1().PodCertificateRequests(namespace).Create(ctx, &certificatesv1beta1.PodCertificateRequest{
		ObjectMeta: meta, Spec: certificatesv1beta1.PodCertificateRequestSpec{
			SignerName: w.SignerName, PodName: w.PodName, PodUID: w.PodUID, ServiceAccountName: w.ServiceAccountName, ServiceAccountUID: w.ServiceAccountUID,
			NodeName: w.NodeName, NodeUID: w.NodeUID, MaxExpirationSeconds: w.MaxExpirationSeconds,
			StubPKCS10Request: w.StubPKCS10Request, UnverifiedUserAnnotations: w.UnverifiedUserAnnotations,
		},
	}, metav1.CreateOptions{})
	if unserved(err) {
		return "", fmt.Errorf("this API server issues no pod certificates: %w", err)
	}
	if err != nil {
		return "", err
	}
	return beta.Name, nil
}

// read reads a request, by the version with which it was made.
func (c *Certificates) read(ctx context.Context, namespace, name string) (requestStatus, error) {
	got, err := c.options.Client.CertificatesV1().PodCertificateRequests(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		s := got.Status
		return requestStatus{s.Conditions, s.CertificateChain, s.BeginRefreshAt, s.NotAfter}, nil
	}
	if !unserved(err) {
		return requestStatus{}, err
	}
	beta, err := c.options.Client.CertificatesV1beta1().PodCertificateRequests(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return requestStatus{}, err
	}
	s := beta.Status
	return requestStatus{s.Conditions, s.CertificateChain, s.BeginRefreshAt, s.NotAfter}, nil
}

// newKey makes a private key of the type that a projection names.
func newKey(keyType string) (crypto.Signer, error) {
	switch keyType {
	case "RSA3072":
		return rsa.GenerateKey(rand.Reader, 3072)
	case "RSA4096":
		return rsa.GenerateKey(rand.Reader, 4096)
	case "ECDSAP256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ECDSAP384":
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ECDSAP521":
		return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "ED25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("keyType %q is unknown", keyType)
}

// keyText encodes a key for pods.
func keyText(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// checkChain returns a chain without anything between its certificates; the first must belong to the key.
func checkChain(text string, key crypto.Signer) ([]byte, error) {
	var out []byte
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("its signer issued something that is no certificate")
		}
		public, ok := certificate.PublicKey.(interface{ Equal(x crypto.PublicKey) bool })
		if out == nil && (!ok || !public.Equal(key.Public())) {
			return nil, errors.New("its signer issued a certificate for another key")
		}
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes})...)
	}
	if out == nil {
		return nil, errors.New("its signer issued no certificate")
	}
	return out, nil
}
