package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/podwright/podwright/kube"
)

// listen opens the node's HTTPS server on the node's address.
func listen(o options, api *rest.Config) (kube.Server, error) {
	if o.port < 0 {
		return kube.Server{}, nil
	}
	address := o.address
	if address == "" {
		address = sourceAddress(api.Host)
	}
	var certificate func() (*tls.Certificate, error)
	if !o.certificates.server {
		var err error
		if certificate, err = servingCertificate(o, address); err != nil {
			return kube.Server{}, err
		}
	}
	authority, err := clientAuthority(o, api)
	if err != nil {
		return kube.Server{}, err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(address, strconv.Itoa(o.port)))
	if err != nil {
		return kube.Server{}, fmt.Errorf("--port %d: %w", o.port, err)
	}
	server := kube.Server{Listener: listener, ClientCAs: func() *x509.CertPool { return authority }}
	if certificate != nil {
		server.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() }
	}
	return server, nil
}

// servingCertificate returns a function that reads the certificate for each connection, so that the
// files can be replaced.
func servingCertificate(o options, address string) (func() (*tls.Certificate, error), error) {
	if (o.certificate == "") != (o.key == "") {
		return nil, errors.New("--tls-cert-file and --tls-private-key-file belong together")
	}
	read := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(o.certificate, o.key)
		return &pair, err
	}
	if o.certificate == "" {
		chain, key, err := cert.GenerateSelfSignedCertKey(o.name, []net.IP{net.ParseIP(address)}, nil)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(chain, key)
		return func() (*tls.Certificate, error) { return &pair, nil }, err
	}
	if _, err := read(); err != nil {
		return nil, fmt.Errorf("--tls-cert-file %s: %w", o.certificate, err)
	}
	return read, nil
}

// clientAuthority returns the authority whose client certificates the server accepts.
func clientAuthority(o options, api *rest.Config) (*x509.CertPool, error) {
	content, name := api.CAData, "the authority in --kubeconfig"
	file := o.clientCA
	if file == "" && len(content) == 0 {
		file = api.CAFile
	}
	if file != "" {
		var err error
		if content, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
		name = file
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s has no certificate: whose clients may connect is not known", name)
	}
	return pool, nil
}
