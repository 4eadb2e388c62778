package probe_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podwright/podwright/probe"
)

func onNode(p *v1.Pod) *v1.Pod {
	p.Spec.HostNetwork = true
	return p
}

// TestProbesStayOutOfTheNodesNetwork is spec/probe.md 11: what a manifest may make the node connect
// to, for each kind of probe, against real servers on the node's loopback.
func TestProbesStayOutOfTheNodesNetwork(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret") }))
	defer server.Close()
	here := portOf(t, server.URL)
	httpAt := func(host string) *v1.Pod { return withHTTP(v1.HTTPGetAction{Port: here, Host: host}) }
	tcpAt := func(host string) *v1.Pod { return withTCP(here, host) }
	loopback := probe.Outbound{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	const podIP = "10.9.8.7"
	for _, c := range []struct {
		name     string
		pod      *v1.Pod
		podIP    string
		outbound probe.Outbound
		says     string // "" for a success
	}{
		{"11.3 http, loopback", httpAt("127.0.0.1"), podIP, probe.Outbound{}, "127.0.0.1 is refused: it is the node's own loopback"},
		{"11.3 tcp, loopback", tcpAt("127.0.0.1"), podIP, probe.Outbound{}, "127.0.0.1 is refused"},
		{"11.3 http, a name of loopback", httpAt("localhost"), podIP, probe.Outbound{}, "is refused: it is the node's own loopback"},
		{"11.3 http, the unspecified address", httpAt("0.0.0.0"), podIP, probe.Outbound{}, "0.0.0.0 is refused"},
		{"11.4 http, loopback as IPv6", httpAt("::ffff:127.0.0.1"), podIP, probe.Outbound{}, "127.0.0.1 is refused"},
		{"11.3 http, on the node's network", onNode(httpAt("127.0.0.1")), podIP, probe.Outbound{}, ""},
		{"11.3 tcp, on the node's network", onNode(tcpAt("localhost")), podIP, probe.Outbound{}, ""},
		{"11.3 http, the pod's own address", httpAt(""), "127.0.0.1", probe.Outbound{}, ""},
		{"11.3 http, the pod's own address, named", httpAt("127.0.0.1"), "127.0.0.1", probe.Outbound{}, ""},
		{"11.2 http, metadata", httpAt("169.254.169.254"), podIP, probe.Outbound{}, "169.254.169.254 is refused: it is link-local"},
		{"11.2 tcp, metadata", tcpAt("169.254.169.254"), podIP, probe.Outbound{}, "169.254.169.254 is refused"},
		{"11.2 http, metadata, on the node's network", onNode(httpAt("100.100.100.200")), podIP, probe.Outbound{}, "100.100.100.200 is refused: it is the metadata"},
		{"11.2 grpc, a pod whose address is link-local", withGRPC(here.IntVal, nil), "169.254.169.254", probe.Outbound{}, "169.254.169.254 is refused"},
		{"11.5 http, allowed", httpAt("127.0.0.1"), podIP, loopback, ""},
		{"11.5 tcp, allowed", tcpAt("127.0.0.1"), podIP, loopback, ""},
		{"11.6 http, no host", onNode(httpAt("127.0.0.1")), podIP, probe.Outbound{NoHost: true}, `host "127.0.0.1" is refused`},
		{"11.6 tcp, no host", tcpAt("127.0.0.1"), podIP, probe.Outbound{NoHost: true, Allow: loopback.Allow}, "Outbound.NoHost"},
		{"11.6 http, no host, the pod itself", httpAt("127.0.0.1"), "127.0.0.1", probe.Outbound{NoHost: true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, said := onceAt(t, c.pod, c.podIP, func(o *probe.Options) { o.Outbound = c.outbound })
			if c.says == "" {
				if e.LastResult != "Success" || len(said) != 0 {
					t.Errorf("%+v, said %q", e, said)
				}
				return
			}
			if e.LastResult != "Failure" || !strings.Contains(e.LastOutput, c.says) || len(said) != 1 || !strings.Contains(said[0], c.says) {
				t.Errorf("%+v, said %q", e, said)
			}
		})
	}
}

// TestNoAnswerIsShown is 5.6: an event quotes nothing of the answer, whether that is HTTP or not.
func TestNoAnswerIsShown(t *testing.T) {
	for name, answer := range map[string]string{
		"a greeting":   "220 secret.internal ESMTP\r\n",
		"a bad header": "HTTP/1.1 200 OK\r\nsecret\r\n\r\n",
		"a bad status": "HTTP/1.1 secret\r\n\r\n",
		"a bad target": "HTTP/1.1 302 Found\r\nLocation: http://%secret\r\n\r\n",
		"a bad length": "HTTP/1.1 200 OK\r\nContent-Length: secret\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = c.Read(make([]byte, 4096))
					_, _ = c.Write([]byte(answer))
					_ = c.Close()
				}
			}()
			defer func() { _ = l.Close(); <-ended }()
			e, said := once(t, withHTTP(v1.HTTPGetAction{Port: portOf(t, l.Addr().String())}))
			if e.LastResult != "Failure" || len(said) != 1 || strings.Contains(said[0]+e.LastOutput, "secret") {
				t.Errorf("%+v, said %q", e, said)
			}
		})
	}
}

// TestBadOutboundIsRefused is 11.5: a list that permits nothing is a mistake.
func TestBadOutboundIsRefused(t *testing.T) {
	_, err := probe.New(probe.Options{Pods: &fleet{}, Outbound: probe.Outbound{Allow: []netip.Prefix{{}, netip.MustParsePrefix("::ffff:127.0.0.0/104")}}})
	if err == nil || !strings.Contains(err.Error(), "Outbound.Allow[0]") || !strings.Contains(err.Error(), "Outbound.Allow[1]") {
		t.Error(err)
	}
}

// TestNoProbeUsesAProxy is spec/probe.md 5.4: what is dialled is the pod's address, and the proxy that the environment
// names (TestMain) is not asked. Go asks no proxy about loopback, so the address is one that is refused.
func TestNoProbeUsesAProxy(t *testing.T) {
	const podIP = "169.254.169.254"
	at := v1.HTTPGetAction{Port: intstr.FromInt32(80)}
	asked := &http.Request{URL: &url.URL{Scheme: "http", Host: podIP}}
	if to, err := http.ProxyFromEnvironment(asked); err != nil || to.String() != proxy {
		t.Fatalf("the environment names the proxy %v, %v", to, err)
	}
	secure := at
	secure.Scheme = "HTTPS"
	for name, p := range map[string]*v1.Pod{"http": withHTTP(at), "https": withHTTP(secure), "grpc": withGRPC(80, nil)} {
		if e, said := onceAt(t, p, podIP); e.LastResult != "Failure" || !strings.Contains(e.LastOutput, podIP+" is refused") {
			t.Errorf("%s: %+v, said %q", name, e, said)
		}
	}
}
