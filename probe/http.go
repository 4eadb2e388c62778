package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/outbound"
	"github.com/podwright/podwright/internal/podinfo"
)

// maxRedirects bounds a chain of redirects; reaching it is a failure (5.5).
const maxRedirects = 10

var errRedirects = fmt.Errorf("stopped after %d redirects", maxRedirects)

// httpHandler sends a GET request (5.3-5.7).
type httpHandler struct {
	dialer *outbound.Dialer
	http2  bool
}

// Probe sends the request and judges the answer by its status code.
func (h httpHandler) Probe(ctx context.Context, t Target) (Outcome, error) {
	get := t.Probe.HTTPGet
	if cmp.Or(get.Host, t.PodIP) == "" {
		return failed(noAddress), nil
	}
	request, err := request(ctx, t)
	if err != nil {
		return Outcome{}, err
	}
	dialed, complete := new(conns), false
	defer func() { dialed.end(complete && ctx.Err() == nil) }()
	transport := h.transport(t, dialed)
	defer transport.CloseIdleConnections() // cancels a dial in progress
	client := &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	answer, err := client.Do(request)
	if ownFault(err) {
		return Outcome{}, outbound.Plain(err)
	}
	if err != nil {
		return failed("%s", cut(outbound.Plain(err).Error(), maxOutput)), nil // it may quote the answer
	}
	defer answer.Body.Close() //nolint:errcheck // nothing is left to lose
	out, err := judgeAnswer(answer)
	complete = err == nil
	return out, err
}

// conns are the connections of one run. The transport does not close all of them: an HTTP/2
// connection that is ready just after its request ended, or whose server reads nothing, stays open.
type conns struct {
	mu    sync.Mutex
	open  []net.Conn
	ended bool
}

// add takes a connection over; after the end of the run it closes it.
func (c *conns) add(conn net.Conn) (net.Conn, error) {
	c.mu.Lock()
	if !c.ended {
		c.open = append(c.open, conn)
		c.mu.Unlock()
		return conn, nil
	}
	c.mu.Unlock()
	reset(conn)
	return nil, net.ErrClosed
}

// end closes the connections, and those that are dialed later. complete: the answer was read.
func (c *conns) end(complete bool) {
	c.mu.Lock()
	open := c.open
	c.open, c.ended = nil, true
	c.mu.Unlock()
	for _, conn := range open {
		if complete {
			_ = conn.Close() // usually it is closed already
		} else {
			reset(conn)
		}
	}
}

// reset closes a connection at once: lingering would wait for a server that does not read.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it may be closed already
	}
	_ = conn.Close()
}

// checkRedirect follows redirects only to the same host name and port; it compares with the address
// that was dialed first, not with a Host header (5.5).
func checkRedirect(next *http.Request, via []*http.Request) error {
	if !outbound.SameServer(next.URL, via[0].URL) {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return errRedirects
	}
	return nil
}

// judgeAnswer reads the beginning of the body and keeps none of it: everyone who sees events and
// explanations would otherwise see what only the node may read (5.6). It is an error if the body
// breaks off before the limit, not if it goes on.
func judgeAnswer(answer *http.Response) (Outcome, error) {
	if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, outbound.MaxBody)); err != nil {
		return Outcome{}, fmt.Errorf("read the body: %w", outbound.Plain(err))
	}
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return Outcome{Result: Success, Output: answered(code)}, nil
	case code >= 300 && code < 400:
		return Outcome{Result: Success, Warning: true, Output: fmt.Sprintf("the probe ended in a redirect, status code %d", code)}, nil
	default:
		return failed("HTTP status code %d", code), nil // the body may hold secrets
	}
}

// answered returns the text of a success.
func answered(code int) string {
	if code == http.StatusOK {
		return "HTTP status code 200" // the usual case, for which no text is built
	}
	return fmt.Sprintf("HTTP status code %d", code)
}

// transport is for a single connection: no proxy, no reuse, no verification (5.4).
func (h httpHandler) transport(t Target, dialed *conns) *http.Transport {
	protocols := new(http.Protocols)
	if p := t.Probe.HTTPGet.Protocol; h.http2 && p != nil && *p == v1.HTTPProtocolHTTP2 && podinfo.RequestScheme(t.Probe.HTTPGet) == "http" {
		protocols.SetUnencryptedHTTP2(true) // 5.7
	} else {
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(true) // by ALPN
	}
	call := t.call(t.Probe.HTTPGet.Host)
	return &http.Transport{
		Protocols: protocols, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: outbound.MaxHeaders,
		// The node can rarely verify a pod's own certificate.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := connect(ctx, h.dialer, call, network, address)
			if err != nil {
				return nil, err
			}
			return dialed.add(conn)
		},
	}
}

// request builds the request (5.3).
func request(ctx context.Context, t Target) (*http.Request, error) {
	get := t.Probe.HTTPGet
	address, err := podinfo.RequestURL(get, t.Container.Ports, cmp.Or(get.Host, t.PodIP))
	if err != nil {
		return nil, err
	}
	out, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("bad URL: %w", outbound.Plain(err))
	}
	var host string
	if out.Header, host = podinfo.RequestHeaders(get.HTTPHeaders, userAgent); host != "" {
		out.Host = host
	}
	return out, nil
}
