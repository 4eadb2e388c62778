package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// Timeouts of connections, as in client-go.
const (
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	dialTimeout      = 30 * time.Second
	idlePerHost      = 25
)

// Transport makes requests with the current certificate. Make one with [NewTransport]. Its methods
// are safe for concurrent use.
type Transport struct {
	config      *rest.Config
	certificate func() (*tls.Certificate, error)
	tls         *tls.Config

	mu sync.Mutex
	// now is the generation of the newest certificate used, nil before the first.
	now *generation
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport makes a transport to the API server that config names, and ignores the credentials
// in config. certificate returns the current certificate, for example [Keeper.Certificate]; while
// it returns an error, every request fails with that error. To be able to close all connections, make
// them with config.Dial.
func NewTransport(config *rest.Config, certificate func() (*tls.Certificate, error)) (*Transport, error) {
	anonymous := rest.AnonymousClientConfig(config)
	settings, err := rest.TLSConfigFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("certs: the API server's authority: %w", err)
	}
	if settings == nil {
		settings = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	anonymous.WrapTransport = config.WrapTransport
	return &Transport{config: anonymous, certificate: certificate, tls: settings}, nil
}

// Config is for clients whose requests use the transport. Each call returns a new one.
func (t *Transport) Config() *rest.Config {
	config := rest.CopyConfig(t.config)
	if !strings.Contains(config.Host, "://") {
		config.Host = "https://" + config.Host
	}
	config.TLSClientConfig, config.Dial, config.Proxy = rest.TLSClientConfig{}, nil, nil
	config.Transport = t
	return config
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := t.certificate()
	if err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	g := t.enter(c)
	ctx, end := context.WithCancel(r.Context())
	response, err := g.transport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		end()
		t.leave(g)
		return nil, err
	}
	b := &body{ReadCloser: response.Body, owner: r.Context(), end: end, left: sync.OnceFunc(func() { end(); t.leave(g) })}
	if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
		t.watches(g, b)
	}
	response.Body = b
	return response, nil
}

// generation is the connections that use one certificate.
type generation struct {
	certificate *tls.Certificate
	transport   *http.Transport
	dialer      *connrotation.Dialer
	// The fields below are guarded by the transport's lock.

	requests int
	watches  map[*body]struct{}
	// over means that there is a newer certificate.
	over bool
}

// enter begins a request with a certificate. A new certificate retires the one that earlier
// requests used.
func (t *Transport) enter(c *tls.Certificate) *generation {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == nil || t.now.certificate != c {
		old := t.now
		t.now = t.generation(c)
		if old != nil {
			t.retire(old)
		}
	}
	t.now.requests++
	return t.now
}

func (t *Transport) generation(c *tls.Certificate) *generation {
	dial := t.config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	}
	proxy := t.config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	settings := t.tls.Clone()
	settings.Certificates = []tls.Certificate{*c}
	g := &generation{certificate: c, dialer: connrotation.NewDialer(dial), watches: map[*body]struct{}{}}
	g.transport = utilnet.SetTransportDefaults(&http.Transport{
		Proxy: proxy, DialContext: g.dialer.DialContext, TLSClientConfig: settings,
		TLSHandshakeTimeout: handshakeTimeout, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: idlePerHost, DisableCompression: t.config.DisableCompression,
	})
	return g
}

// retire ends the watches of a generation, whose owners then watch again. Its connections are
// closed after the last of its requests.
func (t *Transport) retire(g *generation) {
	g.over = true
	for b := range g.watches {
		b.finish()
	}
	t.close(g)
}

// close closes the connections of an old certificate, unless a request still uses one.
func (t *Transport) close(g *generation) {
	if !g.over || g.requests > 0 {
		return
	}
	g.transport.CloseIdleConnections()
	g.dialer.CloseAll()
}

func (t *Transport) leave(g *generation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g.requests--
	t.close(g)
}

// watches records that a body belongs to a watch.
func (t *Transport) watches(g *generation, b *body) {
	t.mu.Lock()
	defer t.mu.Unlock()
	leave := b.left
	b.left = sync.OnceFunc(func() {
		t.mu.Lock()
		delete(g.watches, b)
		t.mu.Unlock()
		leave()
	})
	if g.watches[b] = struct{}{}; g.over {
		b.finish()
	}
}

// body is the body of an answer. The request ends when it is closed, or read to its end.
type body struct {
	io.ReadCloser
	owner context.Context
	end   context.CancelFunc
	left  func()

	mu       sync.Mutex
	finished bool
}

// finish ends the body as if the server had closed it.
func (b *body) finish() {
	b.mu.Lock()
	b.finished = true
	b.mu.Unlock()
	b.end()
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		return n, nil
	}
	b.mu.Lock()
	finished := b.finished
	b.mu.Unlock()
	b.left()
	if finished && b.owner.Err() == nil {
		err = io.EOF
	}
	return n, err
}

// Close implements [io.Closer].
func (b *body) Close() error {
	defer b.left()
	return b.ReadCloser.Close()
}
