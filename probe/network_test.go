package probe_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/probe"
)

// once runs a probe against real servers: in real time, through a whole manager, with
// the package's own handlers. It returns the explanation of the first run and the
// events it led to.
func once(t *testing.T, p *v1.Pod, configure ...func(*probe.Options)) (probe.Explanation, []string) {
	t.Helper()
	return onceAt(t, p, "127.0.0.1", configure...)
}

func onceAt(t *testing.T, p *v1.Pod, ip string, configure ...func(*probe.Options)) (probe.Explanation, []string) {
	t.Helper()
	ran := make(chan struct{}, 1)
	r := newRig(t, append([]func(*probe.Options){func(o *probe.Options) {
		o.Handler = nil
		o.Memory = remembers{ran}
	}}, configure...)...)
	s := r.set(p, up("1", true, time.Now().Add(-time.Hour)))
	s.PodIP = ip
	r.m.AddPod(p)
	r.start()
	// A result is remembered; an error is not, but is reported.
	for range 4000 {
		select {
		case <-ran:
		case <-time.After(5 * time.Millisecond):
		}
		if e := r.m.Explain(p.UID); len(e) == 1 && !e[0].LastRun.IsZero() {
			r.stop()
			return e[0], r.said()
		}
	}
	t.Fatal("the probe did not run")
	return probe.Explanation{}, nil
}

// remembers signals each result.
type remembers struct{ ran chan struct{} }

func (remembers) Recall(typesUID, string, containerID) *probe.Record { return nil }

func (m remembers) Remember(typesUID, string, containerID, probe.Kind, probe.Fact, bool) {
	select {
	case m.ran <- struct{}{}:
	default:
	}
}

// withHTTP is a pod with an http readiness probe.
func withHTTP(get v1.HTTPGetAction, edit ...func(*v1.Probe)) *v1.Pod {
	p := newPod("a")
	probe := &v1.Probe{TimeoutSeconds: 5, PeriodSeconds: 3600, FailureThreshold: 1}
	probe.HTTPGet = &get
	for _, e := range edit {
		e(probe)
	}
	p.Spec.Containers[0].ReadinessProbe = probe
	return p
}

func portOf(t *testing.T, address string) intstr.IntOrString {
	t.Helper()
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		address = u.Host
	}
	_, p, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(p)
	if err != nil {
		t.Fatal(err)
	}
	return intstr.FromInt(n)
}

// TestHTTP is 5.3 to 5.7 against real servers.
func TestHTTP(t *testing.T) {
	var last atomic.Pointer[http.Request]
	mux := http.NewServeMux()
	noting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last.Store(r)
		mux.ServeHTTP(w, r)
	})
	server := httptest.NewServer(noting)
	defer server.Close()
	secure := httptest.NewUnstartedServer(noting)
	secure.EnableHTTP2 = true
	secure.StartTLS() // for example.com: a name that is not the pod's
	defer secure.Close()
	here, there := portOf(t, server.URL), portOf(t, secure.URL)

	mux.HandleFunc("/code/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.PathValue("code"))
		w.WriteHeader(code)
		if code != http.StatusNotModified {
			_, _ = w.Write([]byte("secret body"))
		}
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for range 1024 { // 1 GiB, or until the reader is gone
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("short"))
	})
	mux.HandleFunc("/chain/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.PathValue("n"))
		if n == 0 {
			return
		}
		http.Redirect(w, r, fmt.Sprintf("/chain/%d", n-1), http.StatusFound)
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/back/{n}", func(w http.ResponseWriter, r *http.Request) {
		if n, _ := strconv.Atoi(r.PathValue("n")); n > 0 {
			http.Redirect(w, r, fmt.Sprintf("%s/back/%d", server.URL, n-1), http.StatusFound)
		}
	})
	mux.HandleFunc("/header", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.Host+"/elsewhere", http.StatusFound)
	})
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
	})
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprintf("https://127.0.0.1:%d/elsewhere", there.IntVal), http.StatusMovedPermanently)
	})
	mux.HandleFunc("/noloc", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) })
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "secret body of ", r.URL.Path) })

	for _, c := range []struct {
		name   string
		get    v1.HTTPGetAction
		result string // "" for an error: no result
		output string // a part of it
	}{
		{"edge case 13: 399", v1.HTTPGetAction{Port: here, Path: "/code/399"}, "Success", "399"},
		{"edge case 13: 400", v1.HTTPGetAction{Port: here, Path: "/code/400"}, "Failure", "HTTP status code 400"},
		{"edge case 13: 101", v1.HTTPGetAction{Port: here, Path: "/code/101"}, "Failure", "101"},
		{"edge case 14: 500", v1.HTTPGetAction{Port: here, Path: "/code/500"}, "Failure", "HTTP status code 500"},
		{"5.5: 304", v1.HTTPGetAction{Port: here, Path: "/code/304"}, "Success", "redirect"},
		{"5.5: 302 without Location", v1.HTTPGetAction{Port: here, Path: "/noloc"}, "Success", "redirect"},
		{"5.6, edge case 14: 1 GiB", v1.HTTPGetAction{Port: here, Path: "/big"}, "Success", ""},
		{"5.6: broken body", v1.HTTPGetAction{Port: here, Path: "/broken"}, "", "read the body"},
		{"edge case 12: chain of 9", v1.HTTPGetAction{Port: here, Path: "/chain/9"}, "Success", ""},
		{"edge case 12: chain of 10", v1.HTTPGetAction{Port: here, Path: "/chain/10"}, "Failure", "10 redirects"},
		{"edge case 12: loop", v1.HTTPGetAction{Port: here, Path: "/loop"}, "Failure", "10 redirects"},
		{"5.5, edge case 11: to https on another port", v1.HTTPGetAction{Port: here, Path: "/upgrade"}, "Success", "redirect"},
		{"edge case 11: to another host", v1.HTTPGetAction{Port: here, Path: "/away"}, "Success", "redirect"},
		{"http to a TLS server", v1.HTTPGetAction{Port: there}, "Failure", "400"},
		{"https to a plain server", v1.HTTPGetAction{Port: here, Scheme: "HTTPS"}, "Failure", ""},
		{"bad scheme", v1.HTTPGetAction{Port: here, Scheme: "GOPHER"}, "", "scheme"},
		{"edge case 9: unknown port name", v1.HTTPGetAction{Port: intstr.FromString("web")}, "", `no port named "web"`},
		{"edge case 10: a name that is a number", v1.HTTPGetAction{Port: intstr.FromString(here.String())}, "Success", ""},
		{"5.1: port 0", v1.HTTPGetAction{Port: intstr.FromInt32(0)}, "", "not in 1-65535"},
		{"5.1: port 65536", v1.HTTPGetAction{Port: intstr.FromInt32(65536)}, "", "not in 1-65535"},
		{"5.10, 11.3: the node's loopback by name", v1.HTTPGetAction{Port: here, Host: "localhost"}, "Failure", "is refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, said := once(t, withHTTP(c.get))
			if e.LastResult != c.result || !strings.Contains(e.LastOutput, c.output) {
				t.Errorf("%+v", e)
			}
			if c.result == "" && len(said) != 1 {
				t.Errorf("edge case 9: said %q", said)
			}
			if warned := strings.Contains(strings.Join(said, ""), "ProbeWarning"); warned != (c.result == "Success" && strings.Contains(e.LastOutput, "redirect")) {
				t.Errorf("said %q", said)
			}
			if strings.Contains(strings.Join(append(said, e.LastOutput), ""), "secret") {
				t.Errorf("5.6, edge case 14: %+v, %q", e, said)
			}
		})
	}

	for _, c := range []struct {
		name string
		get  v1.HTTPGetAction
		want string // protocol and target as the server sees them
	}{
		{"5.3 default path", v1.HTTPGetAction{Port: here}, "HTTP/1.1 /?"},
		{"5.3 query", v1.HTTPGetAction{Port: here, Path: "/x?a=1"}, "HTTP/1.1 /x?a=1"},
		{"5.3 unparsable path", v1.HTTPGetAction{Port: here, Path: "/%zz"}, "HTTP/1.1 /%zz?"},
		{"5.3: https, HTTP/2 by ALPN, 5.4: any certificate", v1.HTTPGetAction{Port: there, Path: "/proto", Scheme: "HTTPS"}, "HTTP/2.0 /proto?"},
		{"5.3: HTTP/1.1", v1.HTTPGetAction{Port: here, Path: "/proto"}, "HTTP/1.1 /proto?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, said := once(t, withHTTP(c.get))
			if r := last.Load(); r.Proto+" "+r.URL.Path+"?"+r.URL.RawQuery != c.want {
				t.Errorf("the server was asked %s %s", r.Proto, r.URL)
			}
			if e.LastResult != "Success" || e.LastOutput != "HTTP status code 200" || len(said) != 0 {
				t.Errorf("5.6: a success shows no body: %+v, said %q", e, said)
			}
		})
	}

	t.Run("5.3, edge cases 15 and 16: headers", func(t *testing.T) {
		_, _ = once(t, withHTTP(v1.HTTPGetAction{Port: here, HTTPHeaders: []v1.HTTPHeader{
			{Name: "Host", Value: "x"}, {Name: "X-A", Value: "1"}, {Name: "x-a", Value: "2"}, {Name: "Accept", Value: ""}, {Name: "User-Agent", Value: "me"},
		}}))
		r := last.Load()
		if r.Host != "x" || strings.Join(r.Header["X-A"], " ") != "1 2" || r.Header["Accept"] != nil || r.UserAgent() != "me" {
			t.Errorf("host %s, headers %v", r.Host, r.Header)
		}
		_, _ = once(t, withHTTP(v1.HTTPGetAction{Port: here}))
		r = last.Load()
		if r.UserAgent() != "kube-probe/1.37" || r.Header.Get("Accept") != "*/*" || r.Header["Accept-Encoding"] != nil || r.Header.Get("Connection") != "close" {
			t.Errorf("5.4: headers %v", r.Header)
		}
		// The check of a redirect looks at what was dialled, not at the header.
		withHost := func(path string) *v1.Pod {
			return withHTTP(v1.HTTPGetAction{Port: here, Path: path, HTTPHeaders: []v1.HTTPHeader{{Name: "Host", Value: "x"}}})
		}
		if e, said := once(t, withHost("/back/2")); e.LastResult != "Success" || e.LastOutput != "HTTP status code 200" || len(said) != 0 || last.Load().URL.Path != "/back/0" {
			t.Errorf("edge case 15: to the address that was dialled: %+v, said %q, last %s", e, said, last.Load().URL)
		}
		if e, said := once(t, withHost("/header")); e.LastResult != "Success" || !strings.Contains(e.LastOutput, "redirect") || len(said) != 1 || last.Load().URL.Path != "/header" {
			t.Errorf("edge case 15: to the host of the header: %+v, said %q, last %s", e, said, last.Load().URL)
		}
	})
	t.Run("a server that accepts and never answers", func(t *testing.T) {
		e, said := once(t, withHTTP(v1.HTTPGetAction{Port: here, Path: "/hang"}, func(p *v1.Probe) { p.TimeoutSeconds = 1 }))
		if e.LastResult != "Failure" || len(said) != 1 || !strings.Contains(said[0], "no answer within 1s") {
			t.Errorf("%+v, said %q", e, said)
		}
	})
	t.Run("a port without listener; no query in the event", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		closed := portOf(t, l.Addr().String())
		_ = l.Close()
		e, said := once(t, withHTTP(v1.HTTPGetAction{Port: closed, Path: "/?token=secret"}))
		if e.LastResult != "Failure" || len(said) != 1 || strings.Contains(said[0], "secret") {
			t.Errorf("%+v, said %q", e, said)
		}
	})
	t.Run("5.7: HTTP/2 with prior knowledge, if allowed", func(t *testing.T) {
		h2c := httptest.NewUnstartedServer(noting)
		h2c.Config.Protocols = new(http.Protocols)
		h2c.Config.Protocols.SetHTTP1(true)
		h2c.Config.Protocols.SetUnencryptedHTTP2(true)
		h2c.Start()
		defer h2c.Close()
		get := v1.HTTPGetAction{Port: portOf(t, h2c.URL), Path: "/proto", Protocol: ptr.To(v1.HTTPProtocolHTTP2)}
		if e, _ := once(t, withHTTP(get), func(o *probe.Options) { o.HTTP2 = true }); e.LastResult != "Success" || last.Load().Proto != "HTTP/2.0" {
			t.Errorf("on: %+v", e)
		}
		if e, _ := once(t, withHTTP(get)); e.LastResult != "Success" || last.Load().Proto != "HTTP/1.1" {
			t.Errorf("off: %+v", e)
		}
	})
	t.Run("5.1: a named port", func(t *testing.T) {
		p := withHTTP(v1.HTTPGetAction{Port: intstr.FromString("web")})
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: "other", ContainerPort: 1}, {Name: "web", ContainerPort: here.IntVal}}
		if e, _ := once(t, p); e.LastResult != "Success" {
			t.Errorf("%+v", e)
		}
	})
	t.Run("5.1, edge case 22: a pod without an address", func(t *testing.T) {
		e, said := onceAt(t, withHTTP(v1.HTTPGetAction{Port: here}), "")
		if e.LastResult != "Failure" || !strings.Contains(e.LastOutput, "no address") || len(said) != 1 {
			t.Errorf("%+v, said %q", e, said)
		}
	})
	t.Run("edge case 21: IPv6", func(t *testing.T) {
		l, err := net.Listen("tcp6", "[::1]:0")
		if err != nil {
			t.Fatalf("this machine has no IPv6 on loopback: %v", err)
		}
		six := httptest.NewUnstartedServer(mux)
		six.Listener = l
		six.Start()
		defer six.Close()
		p := portOf(t, l.Addr().String())
		if e, _ := onceAt(t, withHTTP(v1.HTTPGetAction{Port: p}), "::1"); e.LastResult != "Success" {
			t.Errorf("http: %+v", e)
		}
		if e, _ := onceAt(t, withTCP(p, ""), "::1"); e.LastResult != "Success" {
			t.Errorf("tcp: %+v", e)
		}
		if e, _ := onceAt(t, withGRPC(p.IntVal, nil), "::1"); e.LastResult != "Failure" || strings.Contains(e.LastOutput, "too many colons") {
			t.Errorf("grpc: %+v", e)
		}
	})
	t.Run("5.11: a dialer", func(t *testing.T) {
		var asked atomic.Pointer[string]
		dial := func(ctx context.Context, uid types.UID, network, address string) (net.Conn, error) {
			asked.Store(ptr.To(string(uid) + " " + address))
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		}
		e, _ := onceAt(t, withHTTP(v1.HTTPGetAction{Port: intstr.FromInt32(80)}), "10.9.8.7", func(o *probe.Options) { o.Outbound.Dial = dial })
		if e.LastResult != "Success" || *asked.Load() != "uid-a 10.9.8.7:80" {
			t.Errorf("%+v, asked for %s", e, *asked.Load())
		}
	})
}

func withTCP(port intstr.IntOrString, host string) *v1.Pod {
	p := newPod("a")
	p.Spec.Containers[0].ReadinessProbe = &v1.Probe{TimeoutSeconds: 2, PeriodSeconds: 3600, FailureThreshold: 1}
	p.Spec.Containers[0].ReadinessProbe.TCPSocket = &v1.TCPSocketAction{Port: port, Host: host}
	return p
}

// TestTCP is 5.8.
func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 10)
	go func() {
		defer close(got)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			line, err := bufio.NewReader(c).ReadString('\n')
			got <- fmt.Sprint(line, err)
			_ = c.Close()
		}
	}()
	here := portOf(t, l.Addr().String())
	if e, said := once(t, withTCP(here, "")); e.LastResult != "Success" || len(said) != 0 {
		t.Errorf("5.8: %+v, said %q", e, said)
	}
	if text := <-got; text != "EOF" {
		t.Errorf("5.8, 5.4: the server got %q", text)
	}
	if e, said := once(t, withTCP(here, "localhost")); e.LastResult != "Failure" || len(said) != 1 || !strings.Contains(said[0], "is refused") {
		t.Errorf("5.10, 11.3: %+v, said %q", e, said)
	}
	onNode := withTCP(here, "localhost")
	onNode.Spec.HostNetwork = true
	if e, _ := onceAt(t, onNode, "192.0.2.1"); e.LastResult != "Success" {
		t.Errorf("5.10, 11.3: %+v", e)
	}
	<-got
	if e, said := once(t, withTCP(intstr.FromString("nope"), "")); e.LastResult != "" || len(said) != 1 {
		t.Errorf("bad port: %+v", e)
	}
	if e, _ := onceAt(t, withTCP(here, ""), ""); e.LastResult != "Failure" {
		t.Errorf("edge case 22: %+v", e)
	}
	_ = l.Close()
	for range got {
	}
	if e, said := once(t, withTCP(here, "")); e.LastResult != "Failure" || len(said) != 1 {
		t.Errorf("5.8: a port without listener: %+v", e)
	}
}

func withGRPC(port int32, service *string) *v1.Pod {
	p := newPod("a")
	p.Spec.Containers[0].ReadinessProbe = &v1.Probe{TimeoutSeconds: 2, PeriodSeconds: 3600, FailureThreshold: 1}
	p.Spec.Containers[0].ReadinessProbe.GRPC = &v1.GRPCAction{Port: port, Service: service}
	return p
}

// TestGRPC is 5.9 and edge case 20.
func TestGRPC(t *testing.T) {
	agent := make(chan string, 20)
	note := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		agent <- strings.Join(md["user-agent"], "")
		return handler(ctx, request)
	}
	serve := func(service bool, options ...grpc.ServerOption) int32 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer(append(options, grpc.UnaryInterceptor(note))...)
		if service {
			h := health.NewServer()
			h.SetServingStatus("down", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
			grpc_health_v1.RegisterHealthServer(s, h)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.Serve(l)
		}()
		t.Cleanup(func() { s.Stop(); <-done })
		return portOf(t, l.Addr().String()).IntVal
	}
	tls := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer tls.Close()
	plain, none := serve(true), serve(false)
	secure := serve(true, grpc.Creds(credentials.NewServerTLSFromCert(&tls.TLS.Certificates[0])))
	wordy := serve(true, grpc.ChainUnaryInterceptor(func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		_ = grpc.SetHeader(ctx, metadata.Pairs("x", strings.Repeat("x", 1<<20)))
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
	}))
	modeTLS := func(p *v1.Pod) *v1.Pod {
		p.Spec.Containers[0].ReadinessProbe.GRPC.Mode = ptr.To(v1.GRPCProbeModeTLS)
		return p
	}
	for _, c := range []struct {
		name   string
		pod    *v1.Pod
		tls    bool
		result string
		output string
	}{
		{"serving, edge case 20: overall health", withGRPC(plain, nil), false, "Success", "SERVING"},
		{"NOT_SERVING", withGRPC(plain, ptr.To("down")), false, "Failure", "NOT_SERVING"},
		{"unknown service", withGRPC(plain, ptr.To("unknown")), false, "Failure", "NotFound"},
		{"edge case 20: no health service", withGRPC(none, nil), false, "Failure", "no health service"},
		{"plaintext to TLS", withGRPC(secure, nil), false, "Failure", ""},
		{"TLS", modeTLS(withGRPC(secure, nil)), true, "Success", "SERVING"},
		{"TLS not allowed", modeTLS(withGRPC(secure, nil)), false, "Failure", ""},
		{"a megabyte of headers is not read", withGRPC(wordy, nil), false, "Failure", ""},
		{"bad port", withGRPC(70000, nil), false, "Failure", "not in 1-65535"},
	} {
		t.Run("5.9 "+c.name, func(t *testing.T) {
			e, _ := once(t, c.pod, func(o *probe.Options) { o.GRPCTLS = c.tls })
			if e.LastResult != c.result || !strings.Contains(e.LastOutput, c.output) {
				t.Errorf("%+v", e)
			}
		})
	}
	if got := <-agent; !strings.HasPrefix(got, "kube-probe/1.37") {
		t.Errorf("5.9: agent %q", got)
	}
	if e, _ := onceAt(t, withGRPC(plain, nil), ""); e.LastResult != "Failure" {
		t.Errorf("edge case 22: %+v", e)
	}
}
