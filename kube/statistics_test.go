package kube

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/podwright/podwright/kube/server"
	"github.com/podwright/podwright/kube/stats"
)

// TestStatsAreOnByDefault (KV1, KH7): a node with a server measures itself and its pods with what the engine's
// configuration has, unless it is told not to.
func TestStatsAreOnByDefault(t *testing.T) {
	pages := func(s Server) server.Stats {
		t.Helper()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		s.Listener, s.Certificate = listener, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &tls.Certificate{}, nil }
		c := newConfig(t)
		a, err := New(Options{Config: &rest.Config{Host: "https://api.example"}, Server: s}, &c)
		if err != nil {
			t.Fatal(err)
		}
		if o := a.options.Server.Stats; o.Runtime != c.Runtime || o.RootDir != c.RootDir {
			t.Errorf("options: %+v", o)
		}
		made, err := a.makeStats(&engine{})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	made := pages(Server{})
	w := httptest.NewRecorder()
	made.ServeResource(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics/resource", nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "resource_scrape_error 0") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if made := pages(Server{NoStats: true}); made != nil {
		t.Errorf("without: %v", made)
	}
	c := newConfig(t)
	_, err := New(Options{Config: &rest.Config{Host: "https://api.example"}, Server: Server{Stats: stats.Options{Engine: &engine{}}}}, &c)
	if err == nil || !strings.Contains(err.Error(), "Server.Stats.Engine") {
		t.Errorf("an engine of its own: %v", err)
	}
}
