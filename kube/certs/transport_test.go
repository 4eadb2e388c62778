package certs

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// wire is a server that asks for certificates, and the certificates of the moment.
type wire struct {
	t         *testing.T
	server    *httptest.Server
	authority *authority
	transport *Transport
	// connections are those of the transport, and open is how many are open.
	connections *connrotation.Dialer
	open        atomic.Int64

	mu          sync.Mutex
	certificate *tls.Certificate
	fail        error
	// release lets slow requests go on; slow tells that one has begun.
	release, slow chan struct{}
}

func newWire(t *testing.T) *wire {
	w := &wire{t: t, authority: newAuthority(t), release: make(chan struct{}), slow: make(chan struct{}, 10)}
	pool := x509.NewCertPool()
	pool.AddCert(w.authority.certificate)
	w.server = httptest.NewUnstartedServer(w)
	w.server.EnableHTTP2 = true
	w.server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that a rotation ends
	w.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	w.server.StartTLS()
	t.Cleanup(w.server.Close)
	w.rotate()
	w.connections = connrotation.NewDialer(w.dial)
	var err error
	w.transport, err = NewTransport(&rest.Config{
		Host: w.server.URL, BearerToken: "must not be sent", Dial: w.connections.DialContext,
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw})},
	}, func() (*tls.Certificate, error) { w.mu.Lock(); defer w.mu.Unlock(); return w.certificate, w.fail })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.connections.CloseAll)
	return w
}

// counted is a connection that says once that it is closed.
type counted struct {
	net.Conn
	closed func()
}

func (c counted) Close() error { c.closed(); return c.Conn.Close() }

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.open.Add(1)
	return counted{c, sync.OnceFunc(func() { w.open.Add(-1) })}, nil
}

// rotate makes another certificate that of the moment.
func (w *wire) rotate() {
	w.t.Helper()
	now := time.Now()
	pair, err := parsePair(w.authority.pair(w.t, "edge-1", now.Add(-time.Minute), now.Add(time.Hour)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.certificate = pair
}

func serial(c *x509.Certificate) string { return c.SerialNumber.String() }

func (w *wire) now() string { w.mu.Lock(); defer w.mu.Unlock(); return serial(w.certificate.Leaf) }

// ServeHTTP tells whose certificate it saw.
func (w *wire) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		w.t.Error("credentials of the configuration are sent")
	}
	who := serial(r.TLS.PeerCertificates[0])
	fmt.Fprintln(out, who)
	out.(http.Flusher).Flush()
	switch {
	case r.URL.Query().Get("watch") == "true":
		<-r.Context().Done()
	case r.URL.Path == "/slow":
		w.slow <- struct{}{}
		select {
		case <-w.release:
			fmt.Fprintln(out, "whole")
		case <-r.Context().Done():
		}
	}
}

// ask asks, and returns the first line of the answer and the rest.
func (w *wire) ask(path string) (who string, rest *bufio.Reader, end func()) {
	w.t.Helper()
	r, _ := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.server.URL+path, nil)
	response, err := w.transport.RoundTrip(r)
	if err != nil {
		w.t.Fatal(err)
	}
	rest = bufio.NewReader(response.Body)
	who, err = rest.ReadString('\n')
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(who), rest, func() { _ = response.Body.Close() }
}

// TestRotationLosesNoRequest (KC2): a request that has begun ends with its certificate, the next has the new one, a
// watch ends as if the server had ended it, and then nothing is left of the old certificate.
func TestRotationLosesNoRequest(t *testing.T) {
	w := newWire(t)
	first := w.now()
	_, watch, endWatch := w.ask("/pods?watch=true")
	defer endWatch()
	_, slow, endSlow := w.ask("/slow")
	<-w.slow
	if who, _, end := w.ask("/pods"); who != first {
		t.Errorf("certificate %s, want %s", who, first)
	} else {
		end()
	}
	w.rotate()
	who, _, end := w.ask("/pods")
	end()
	if who != w.now() || who == first {
		t.Errorf("after the rotation: certificate %s, want %s", who, w.now())
	}
	if _, err := watch.ReadString('\n'); !errors.Is(err, io.EOF) {
		t.Errorf("the watch ends with %v, want EOF", err)
	}
	if n := w.open.Load(); n != 2 {
		t.Errorf("%d connections are open, want the request's and that of the new certificate", n)
	}
	close(w.release)
	if text, err := io.ReadAll(slow); string(text) != "whole\n" || err != nil {
		t.Errorf("the slow request: %q, %v", text, err)
	}
	endSlow()
	if n := w.open.Load(); n != 1 {
		t.Errorf("%d connections are open, want that of the new certificate", n)
	}
}

// TestWatchOfAnEarlierCertificate (KC2): one that is answered after the rotation ends too.
func TestWatchOfAnEarlierCertificate(t *testing.T) {
	w := newWire(t)
	b := &body{ReadCloser: io.NopCloser(strings.NewReader("")), owner: t.Context(), end: func() {}, left: func() {}}
	g := w.transport.enter(w.certificate)
	w.rotate()
	_, _, end := w.ask("/pods")
	end()
	w.transport.watches(g, b)
	if !b.finished {
		t.Error("the watch stays with the certificate before")
	}
	w.transport.leave(g)
}

// TestOwnCancellationIsNoEnd: a watch whose owner gives up, or whose connection breaks, does not end as if the server had ended it.
func TestOwnCancellationIsNoEnd(t *testing.T) {
	w := newWire(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, w.server.URL+"/pods?watch=true", nil)
	response, err := w.transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	cancel()
	if _, err := io.ReadAll(response.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("ends with %v", err)
	}
	_, watch, end := w.ask("/pods?watch=true")
	defer end()
	w.connections.CloseAll()
	if _, err := watch.ReadString('\n'); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a broken connection ends with %v", err)
	}
}

// TestNoCertificateNoRequest (KC3): nothing is sent without one, and the error says why.
func TestNoCertificateNoRequest(t *testing.T) {
	w := newWire(t)
	w.fail = ErrNone
	client, err := kubernetes.NewForConfig(w.transport.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), nil, metav1.CreateOptions{}); err == nil {
		t.Error("a Node is created")
	}
	if _, err := client.CoreV1().Nodes().Get(t.Context(), "edge-1", metav1.GetOptions{}); !errors.Is(err, ErrNone) {
		t.Errorf("error %v", err)
	}
	if w.transport.now != nil {
		t.Error("a connection was made")
	}
}

// TestTrafficAcrossRotations (KC2): clients that never stop see no error while certificates change.
func TestTrafficAcrossRotations(t *testing.T) {
	w := newWire(t)
	client, err := rest.HTTPClientFor(w.transport.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	var asked [4]int
	for i := range asked {
		work.Go(func() {
			for ctx.Err() == nil {
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL+"/pods", nil)
				response, err := client.Do(r)
				if err == nil {
					_, err = io.ReadAll(response.Body)
					err = errors.Join(err, response.Body.Close())
				}
				if err != nil {
					t.Error(err)
				}
				asked[i]++
			}
		})
	}
	var all []*generation
	for range 20 {
		w.rotate()
		_, _, end := w.ask("/pods")
		end()
		w.transport.mu.Lock()
		all = append(all, w.transport.now)
		w.transport.mu.Unlock()
	}
	cancel()
	work.Wait()
	if asked[0] == 0 {
		t.Error("no requests")
	}
	for i, g := range all {
		if g.requests != 0 || g.over != (i < len(all)-1) {
			t.Errorf("certificate %d: %d requests, over %t", i, g.requests, g.over)
		}
	}
}
