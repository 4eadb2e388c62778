package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// TestLastKnownAddress (KN11): a lookup that fails takes no address from the node, and is logged once; without any address so far,
// the Node keeps those that it has.
func TestLastKnownAddress(t *testing.T) {
	var found string
	logged := 0
	own := ownAddress{find: func(context.Context) (string, error) {
		if found == "" {
			return "", errors.New("no answer")
		}
		return found, nil
	}, logger: funcr.New(func(string, string) { logged++ }, funcr.Options{})}
	for _, step := range []struct {
		finds, want string
		logged      int
	}{{"", "", 1}, {"10.0.0.1", "10.0.0.1", 1}, {"", "10.0.0.1", 2}, {"", "10.0.0.1", 2}, {"10.0.0.2", "10.0.0.2", 2}, {"", "10.0.0.2", 3}} {
		found = step.finds
		var want []v1.NodeAddress
		if step.want != "" {
			want = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: step.want}, {Type: v1.NodeHostName, Address: "edge-1"}}
		}
		if got := addresses("edge-1", own.current(t.Context())); !equality.Semantic.DeepEqual(got, want) || logged != step.logged {
			t.Errorf("%+v: %v, %d lines", step, got, logged)
		}
	}
}

// TestSlowNameServer (KN11): while the first name server drops packets, and a search takes 5 s for that, the Node's conditions are
// published and pods start: callers share the search, wait for it no longer than the limit, and the last address counts. What it
// finds counts from then on. The end of the program ends it.
func TestSlowNameServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var searches atomic.Int32
		own := ownAddress{last: "10.0.0.1", find: func(ctx context.Context) (string, error) {
			searches.Add(1)
			select {
			case <-time.After(5 * time.Second):
				return "10.0.0.2", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}}
		for round, want := range []struct {
			address  string
			searches int32
		}{{"10.0.0.1", 1}, {"10.0.0.1", 1}, {"10.0.0.2", 1}, {"10.0.0.2", 2}} {
			begin := time.Now()
			var callers sync.WaitGroup
			for range 3 {
				callers.Go(func() {
					if got, waited := own.current(ctx), time.Since(begin); got != want.address || waited > findLimit {
						t.Errorf("round %d: %s after %v", round, got, waited)
					}
				})
			}
			callers.Wait()
			if n := searches.Load(); n != want.searches {
				t.Errorf("round %d: %d searches", round, n)
			}
		}
		cancel()
		begin := time.Now()
		own.wait()
		if waited := time.Since(begin); waited > 0 {
			t.Errorf("the search went on for %v", waited)
		}
	})
}

// TestNodeIP (KN11): the address towards the API server counts; if that is one at which no other machine reaches this node, because
// a load balancer on this machine leads to the API server, that of the default route.
func TestNodeIP(t *testing.T) {
	const api, route4, route6 = "api.example:6443", "192.0.2.1:443", "[2001:db8::1]:443"
	for name, c := range map[string]struct {
		address string
		sources map[string]string // by target; none: there is no way
		want    string
		wrong   string
	}{
		"towards the API server":         {"", map[string]string{api: "10.0.0.1", route4: "198.51.100.7"}, "10.0.0.1", ""},
		"the flag":                       {"10.0.0.9", map[string]string{api: "10.0.0.1"}, "10.0.0.9", ""},
		"a load balancer on the machine": {"", map[string]string{api: "127.0.0.1", route4: "198.51.100.7", route6: "2001:db8::7"}, "198.51.100.7", ""},
		"the same with IPv6":             {"", map[string]string{api: "::1", route4: "198.51.100.7", route6: "2001:db8::7"}, "2001:db8::7", ""},
		"the other family alone":         {"", map[string]string{api: "127.0.0.1", route6: "2001:db8::7"}, "2001:db8::7", ""},
		"link-local":                     {"", map[string]string{api: "169.254.1.1", route4: "198.51.100.7"}, "198.51.100.7", ""},
		"a route of no use":              {"", map[string]string{api: "127.0.0.1", route4: "169.254.1.1", route6: "::1"}, "", "--address"},
		"no default route":               {"", map[string]string{api: "127.0.0.1"}, "", "--address"},
		"no way to the API server":       {"", map[string]string{route4: "198.51.100.7"}, "", "no way"},
	} {
		got, err := nodeIP(t.Context(), options{address: c.address}, "https://"+api+"/path", func(_ context.Context, target string) (net.IP, error) {
			if ip := net.ParseIP(c.sources[target]); ip != nil {
				return ip, nil
			}
			return nil, errors.New("no way")
		})
		if got != c.want || (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestSourceAddress: the address towards this machine itself needs no network, whatever form the server has.
func TestSourceAddress(t *testing.T) {
	for _, server := range []string{"https://127.0.0.1:6443", "https://127.0.0.1/path", "127.0.0.1"} {
		if ip, err := sourceAddress(t.Context(), hostPort(server)); err != nil || !ip.IsLoopback() {
			t.Errorf("%s: %v, %v", server, ip, err)
		}
	}
}
