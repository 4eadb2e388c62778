package apitest

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
)

// Moment is a point of a request on its way through a [Gate].
type Moment string

const (
	// Unsent is before the request reaches the API server, which never sees it.
	Unsent Moment = "before"
	// Unheard is after the API server has carried it out; the client never learns of that.
	Unheard Moment = "during"
	// Heard is after the client has the answer; for a watch, at its end.
	Heard Moment = "after"
)

// Gate is an HTTPS server in front of the API server, on loopback, which passes on requests as one
// user. A test can end a client at a chosen request. All methods are safe for concurrent use.
type Gate struct {
	host   string
	server *http.Server
	way    http.RoundTripper
	done   chan struct{}

	mu   sync.Mutex
	seen int
	trap *trap
}

// trap is what happens at one request.
type trap struct {
	at     int
	moment Moment
	spring func(call string)
}

// NewGate returns a gate that sends requests as the config's user, such as [Cluster.Node]. Close ends it.
func NewGate(c *Cluster, as *rest.Config) (*Gate, error) {
	way, err := rest.TransportFor(as)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(as.Host)
	if err != nil {
		return nil, err
	}
	certificate, key, err := c.ServingCertificate("127.0.0.1")
	if err != nil {
		return nil, err
	}
	own, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &Gate{host: "https://" + listener.Addr().String(), way: way, done: make(chan struct{})}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: g, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	g.server = &http.Server{
		Handler: proxy, TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12},
		ErrorLog: log.New(io.Discard, "", 0), // clients that die are its purpose
	}
	go func() { defer close(g.done); _ = g.server.ServeTLS(listener, "", "") }()
	return g, nil
}

// Config returns a copy of the config that connects through the gate.
func (g *Gate) Config(config *rest.Config) *rest.Config {
	through := rest.CopyConfig(config)
	through.Host = g.host
	return through
}

// At has spring called once, at the given moment of the n-th request from now on; call names the request, which
// continues only after spring returns. It replaces an earlier setting; the returned function undoes it.
func (g *Gate) At(n int, m Moment, spring func(call string)) (undo func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := &trap{g.seen + n, m, spring}
	g.trap = t
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.trap == t {
			g.trap = nil
		}
	}
}

// RoundTrip implements [http.RoundTripper], towards the API server.
func (g *Gate) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	g.seen++
	number := g.seen
	g.mu.Unlock()
	if g.springs(number, Unsent, r) {
		return nil, http.ErrAbortHandler
	}
	answer, err := g.way.RoundTrip(r)
	if err == nil && g.springs(number, Unheard, r) {
		_ = answer.Body.Close()
		return nil, http.ErrAbortHandler
	}
	if err == nil {
		go func() {
			<-r.Context().Done() // the answer has been sent, or the client is gone
			g.springs(number, Heard, r)
		}()
	}
	return answer, err
}

// springs calls the trap that is set for a moment of a request, and reports whether there was one.
func (g *Gate) springs(number int, m Moment, r *http.Request) bool {
	g.mu.Lock()
	t := g.trap
	hit := t != nil && t.at == number && t.moment == m
	if hit {
		g.trap = nil
	}
	g.mu.Unlock()
	if hit {
		t.spring(r.Method + " " + r.URL.Path)
	}
	return hit
}

// Close ends the gate and all its requests.
func (g *Gate) Close() {
	_ = g.server.Close()
	<-g.done
	if idle, ok := g.way.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}
