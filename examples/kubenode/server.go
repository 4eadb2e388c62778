package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/podwright/podwright/kube"
)

// listen opens the node's HTTPS server: on --address, which the machine may get later, and without it on all addresses, since the
// one that leads to the API server is known only with a network, and changes (KN11).
func listen(o options, api *rest.Config, logger logr.Logger) (kube.Server, error) {
	if o.port < 0 {
		return kube.Server{}, nil
	}
	var certificate func() (*tls.Certificate, error)
	if !o.certificates.server {
		var err error
		if certificate, err = servingCertificate(o); err != nil {
			return kube.Server{}, err
		}
	}
	authority, err := clientAuthority(o, api, logger)
	if err != nil {
		return kube.Server{}, err
	}
	config := net.ListenConfig{Control: beforeTheAddressIsThere}
	listener, err := config.Listen(context.Background(), "tcp", net.JoinHostPort(o.address, strconv.Itoa(o.port)))
	if err != nil {
		return kube.Server{}, fmt.Errorf("--port %d: %w", o.port, err)
	}
	server := kube.Server{Listener: listener, ClientCAs: authority}
	if certificate != nil {
		server.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() }
	}
	return server, nil
}

// beforeTheAddressIsThere lets a socket listen on an address that no interface has yet.
func beforeTheAddressIsThere(_, _ string, socket syscall.RawConn) error {
	var failed error
	err := socket.Control(func(fd uintptr) { failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_FREEBIND, 1) })
	return errors.Join(err, failed)
}

// servingCertificate returns a function that reads the certificate for each connection, so that the
// files can be replaced.
func servingCertificate(o options) (func() (*tls.Certificate, error), error) {
	if (o.certificate == "") != (o.key == "") {
		return nil, errors.New("--tls-cert-file and --tls-private-key-file belong together")
	}
	read := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(o.certificate, o.key)
		return &pair, err
	}
	if o.certificate == "" {
		var ips []net.IP // those that a search finds may take long, and change
		if o.address != "" {
			ips = append(ips, net.ParseIP(o.address))
		}
		chain, key, err := cert.GenerateSelfSignedCertKey(o.name, ips, nil)
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

// clientAuthority returns a function that returns the authority whose client certificates the server accepts. A file is read for
// each request, so that it can be replaced.
func clientAuthority(o options, api *rest.Config, logger logr.Logger) (func() *x509.CertPool, error) {
	file := o.clientCA
	if file == "" && len(api.CAData) == 0 {
		file = api.CAFile
	}
	if file == "" {
		pool, err := poolOf(api.CAData, "the authority in --kubeconfig")
		return func() *x509.CertPool { return pool }, err
	}
	authority := &authorityFile{file: file, logger: logger}
	if err := authority.read(); err != nil {
		return nil, fmt.Errorf("--client-ca-file: %w", err)
	}
	return authority.current, nil
}

func poolOf(content []byte, name string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s has no certificate: whose clients may connect is not known", name)
	}
	return pool, nil
}

// authorityFile is an authority in a file.
type authorityFile struct {
	file   string
	logger logr.Logger

	mu      sync.Mutex
	content []byte
	pool    *x509.CertPool // of content
	failing bool
}

// current returns what the file has now, and what it had before while it cannot be used. The log has the first failure of a row.
func (f *authorityFile) current() *x509.CertPool {
	err := f.read()
	f.mu.Lock()
	pool, tell := f.pool, err != nil && !f.failing
	f.failing = err != nil
	f.mu.Unlock()
	if tell {
		f.logger.Error(err, "The authority of clients cannot be read; the clients of the previous one may still connect")
	}
	return pool
}

// read reads the file.
func (f *authorityFile) read() error {
	content, err := os.ReadFile(f.file)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pool != nil && bytes.Equal(content, f.content) {
		return nil
	}
	pool, err := poolOf(content, f.file)
	if err == nil {
		f.content, f.pool = content, pool
	}
	return err
}
