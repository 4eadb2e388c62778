package source

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// TestRedirectKeepsItsAddress: H6. A redirect whose name now means another address does not lead
// into the node's network; a redirect to the address of the URL is the operator's choice.
func TestRedirectKeepsItsAddress(t *testing.T) {
	for _, turned := range []bool{false, true} {
		t.Run(fmt.Sprint("turned ", turned), func(t *testing.T) {
			var h *HTTP
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/pods" {
					fmt.Fprint(w, podJSON("web"))
					return
				}
				if turned { // the name meant another address when the source dialled the URL
					h.mu.Lock()
					h.reached = netip.MustParseAddr("192.0.2.1")
					h.mu.Unlock()
				}
				w.Header().Set("Connection", "close")
				http.Redirect(w, r, "/pods", http.StatusFound)
			}))
			defer server.Close()
			var err error
			h, err = NewHTTP(server.URL+"/moved", "node-1", HTTPOptions{})
			must(t, err)
			client, done := h.client()
			defer done()
			_, err = h.get(t.Context(), client)
			if turned != (err != nil && strings.Contains(err.Error(), "into the node's network")) || !turned && err != nil {
				t.Error(err)
			}
			client.CloseIdleConnections()
			if _, err := h.get(t.Context(), client); turned == (err == nil) {
				t.Errorf("the next poll: %v", err)
			}
		})
	}
}

// TestRedirectedAddress: H6, address by address.
func TestRedirectedAddress(t *testing.T) {
	for _, c := range []struct {
		address    string
		redirected bool
		refused    bool
	}{
		{"169.254.169.254:80", false, false},
		{"127.0.0.1:80", false, false},
		{"169.254.169.254:80", true, true},
		{"127.0.0.1:80", true, true},
		{"[::ffff:100.100.100.200]:80", true, true},
		{"[fe80::1%eth0]:80", true, true},
		{"198.51.100.7:80", true, false},
		{"127.0.0.9:80", true, false}, // where the URL led
	} {
		j := &journey{}
		j.redirected.Store(c.redirected)
		h := &HTTP{reached: netip.MustParseAddr("127.0.0.9")}
		if err := h.check(context.WithValue(t.Context(), journeyKey{}, j), "tcp", c.address, nil); (err != nil) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestRedirectKeepsSchemePortAndHost: H6.
func TestRedirectKeepsSchemePortAndHost(t *testing.T) {
	for to, want := range map[string]bool{
		"https://a.example:8443/x": true,
		"http://a.example:8443/x":  false,
		"https://a.example/x":      false,
		"https://a.example:8444/x": false,
		"https://b.example:8443/x": false,
	} {
		first, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example:8443/pods", nil)
		must(t, err)
		next, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
		must(t, err)
		if got := follow(next, []*http.Request{first}) == nil; got != want {
			t.Errorf("%s: %v", to, got)
		}
	}
}
