package pods_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/pods"
)

// spec/runtime.md 15.4, spec/probe.md 11: a hook reaches no more of the node's network than
// a probe. What is refused is in its event.
func TestHooksStayOutOfTheNodesNetwork(t *testing.T) {
	for _, tc := range []struct {
		name        string
		host        string
		hostNetwork bool
		outbound    pods.Outbound
		says        string // "" if the request comes
	}{
		{name: "loopback", host: "127.0.0.1", says: "127.0.0.1 is refused: it is the node's own loopback"},
		{name: "a name of loopback", host: "localhost", says: "is refused: it is the node's own loopback"},
		{name: "on the node's network", host: "127.0.0.1", hostNetwork: true},
		{name: "metadata", host: "169.254.169.254", hostNetwork: true, says: "169.254.169.254 is refused: it is link-local"},
		{name: "allowed", host: "127.0.0.1", outbound: pods.Outbound{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}},
		{name: "no host", host: "localhost", hostNetwork: true, outbound: pods.Outbound{NoHost: true}, says: `host "localhost" is refused`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := &requests{}
			server := httptest.NewServer(got)
			defer server.Close()
			w := newWorld(t, nil, func(o *pods.Options) { o.Outbound = tc.outbound })
			handler := v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{
				Host: tc.host, Path: "/?token=secret", Port: intstr.FromInt32(int32(server.Listener.Addr().(*net.TCPAddr).Port)),
			}}
			started, stopped := newPod(func(p *v1.Pod) {
				p.Spec.HostNetwork = tc.hostNetwork
				p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &handler}
			}), newPod(func(p *v1.Pod) {
				p.UID = "stopped"
				p.Name = "stopped"
				p.Spec.HostNetwork = tc.hostNetwork
				p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
				p.Spec.Containers[0].Lifecycle = preStop(handler)
			})
			message := starts(w.sync(started))[0].Message
			w.syncAll(stopped)
			if err := w.m.KillPod(t.Context(), stopped, w.read(stopped), nil); err != nil {
				t.Fatal(err)
			}
			said := strings.Join(w.events.list(), "\n")
			if tc.says == "" {
				if len(got.all) != 2 || strings.Contains(said, "Failed") {
					t.Errorf("requests %q, events %s", got.all, said)
				}
				return
			}
			if len(got.all) != 0 || !strings.Contains(message, tc.says) || strings.Contains(message+said, "secret") {
				t.Errorf("requests %q, message %q", got.all, message)
			}
			for _, reason := range []string{"FailedPostStartHook", "FailedPreStopHook"} {
				if i := strings.Index(said, reason); i < 0 || !strings.Contains(strings.SplitN(said[i:], "\n", 2)[0], tc.says) {
					t.Errorf("no %s with the reason: %s", reason, said)
				}
			}
		})
	}
}

// spec/runtime.md 15.4: a redirect to another port is not followed, and what a hook reads is
// in no message.
func TestHookRedirectKeepsItsPort(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other port was asked") }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer server.Close()
	w := newWorld(t, nil, func(o *pods.Options) { o.HostIPs = func() []string { return []string{"127.0.0.1"} } })
	r := w.sync(newPod(func(p *v1.Pod) {
		p.Spec.HostNetwork = true
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{
			Port: intstr.FromInt32(int32(server.Listener.Addr().(*net.TCPAddr).Port)),
		}}}
	}))
	if r.Err != nil {
		t.Error(r.Err)
	}
}

// spec/runtime.md 15: an answer may have as many headers as that of a probe, so that no server fills
// the agent's memory.
func TestHookReadsBoundedHeaders(t *testing.T) {
	for size, fails := range map[int]bool{128 << 10: false, 1 << 20: true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", size))
		}))
		w := newWorld(t, nil, func(o *pods.Options) { o.HostIPs = func() []string { return []string{"127.0.0.1"} } })
		r := w.sync(newPod(func(p *v1.Pod) {
			p.Spec.HostNetwork = true
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{
				Port: intstr.FromInt32(int32(server.Listener.Addr().(*net.TCPAddr).Port)),
			}}}
		}))
		server.Close()
		if failed := starts(r)[0].Reason == "PostStartHookError"; failed != fails {
			t.Errorf("%d bytes of headers: %+v", size, starts(r)[0])
		}
	}
}

// spec/runtime.md 15: a hook lasts until its answer has ended, or 10 KiB of it have come. How a body ends
// does not matter.
func TestHookLastsAsLongAsItsAnswer(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nConnection: close\r\n"
	for name, tc := range map[string]struct {
		answer, late string
		ends         time.Duration
		took         time.Duration
	}{
		"headers first, the end later": {head + "\r\n", "done", 5 * second, 5 * second},
		"broken off":                   {head + "Content-Length: 100\r\n\r\n", "done", 5 * second, 5 * second},
		"long":                         {head + "\r\n" + strings.Repeat("x", 10<<10), "", 5 * second, 0},
		"without an end, such as a stream of events": {head + "\r\n", "", 24 * time.Hour, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var serving sync.WaitGroup
				dial := func(context.Context, types.UID, string, string) (net.Conn, error) {
					client, server := net.Pipe()
					serving.Go(func() {
						defer server.Close()
						if _, err := http.ReadRequest(bufio.NewReader(server)); err != nil {
							t.Error(err)
						}
						_, _ = io.WriteString(server, tc.answer)
						<-time.After(tc.ends)
						_, _ = io.WriteString(server, tc.late)
					})
					return client, nil
				}
				w := newWorld(t, nil, func(o *pods.Options) { o.Outbound.Dial, o.PostStartTimeout = dial, time.Minute })
				began := time.Now()
				r := w.sync(newPod(func(p *v1.Pod) {
					p.Spec.HostNetwork = true
					p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
				}))
				if took := time.Since(began); r.Err != nil || took != tc.took {
					t.Errorf("%v, it took %v", r.Err, took)
				}
				serving.Wait()
			})
		})
	}
}
