//go:build apiserver && containerd

package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// echoing is a proxy to the API server whose failures are as indiscreet as can be: their messages
// have the request's headers and body, and answers with secrets are cut off.
type echoing struct {
	server    *httptest.Server
	transport http.RoundTripper

	mu      sync.Mutex
	failing bool
	failed  map[string]int // by kind
	tokens  []string       // what the API server has issued
}

// failures are the kinds, in turn: status codes, an answer that is cut off, and one that is no object.
var failures = []string{"403", "422", "500", "cut off", "no object"}

var issued = regexp.MustCompile(`eyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`)

func newEchoing(t *testing.T, c *cluster) *echoing {
	t.Helper()
	upstream, err := rest.TransportFor(&rest.Config{Host: c.api.Admin().Host, TLSClientConfig: rest.TLSClientConfig{CAData: c.api.CA()}})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(c.serving+".crt", c.serving+".key")
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(c.api.Admin().Host)
	if err != nil {
		t.Fatal(err)
	}
	e := &echoing{transport: upstream, failed: map[string]int{}}
	e.server = httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: e, FlushInterval: -1,
	})
	e.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	e.server.EnableHTTP2 = true
	e.server.Config.ErrorLog = nil
	e.server.StartTLS()
	t.Cleanup(func() {
		e.server.CloseClientConnections()
		e.server.Close()
		if idle, ok := upstream.(interface{ CloseIdleConnections() }); ok {
			idle.CloseIdleConnections()
		}
	})
	return e
}

func (e *echoing) fail(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failing = on
}

// RoundTrip implements [http.RoundTripper]. Watches and leases never fail, so that the node lives.
func (e *echoing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") != "" || strings.Contains(r.URL.Path, "/leases/") {
		return e.transport.RoundTrip(r)
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	e.mu.Lock()
	failing, kind := e.failing, failures[sum(e.failed)%len(failures)]
	if failing {
		e.failed[kind]++
	}
	e.mu.Unlock()
	if failing && r.Method != http.MethodGet {
		return e.failure(r, kind, body, body), nil // nothing has happened
	}
	response, err := e.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	for _, token := range issued.FindAllString(string(answer), -1) {
		if !slices.Contains(e.tokens, token) {
			e.tokens = append(e.tokens, token)
		}
	}
	e.mu.Unlock()
	if failing {
		return e.failure(r, kind, body, answer), nil
	}
	response.Body = io.NopCloser(bytes.NewReader(answer))
	return response, nil
}

func (e *echoing) failure(r *http.Request, kind string, body, answer []byte) *http.Response {
	response := &http.Response{StatusCode: http.StatusOK, ProtoMajor: 2, Request: r, Header: http.Header{"Content-Type": {"application/json"}}}
	content := answer[:len(answer)/2]
	switch kind {
	case "no object":
		content = fmt.Appendf(nil, `[%q]`, answer)
	case "403", "422", "500":
		response.StatusCode, _ = strconv.Atoi(kind)
		reason := map[string]string{"403": "Forbidden", "422": "Invalid", "500": "InternalError"}[kind]
		content, _ = json.Marshal(map[string]any{
			"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": response.StatusCode, "reason": reason,
			"message": fmt.Sprintf("%s %s %s %v: %s", kind, r.Method, r.URL, r.Header, body),
		})
	}
	response.Body = io.NopCloser(bytes.NewReader(content))
	return response
}

func sum(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}
