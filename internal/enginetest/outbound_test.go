package enginetest_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime/fake"
)

// TestTenantsProbesStayOutOfTheNode: of three pods with the same probe at a service on the node's
// loopback, the one on the node's network becomes ready. Those with their own network do not,
// before or after a restart, and none of their hooks gets through (spec/probe.md 11.3,
// spec/runtime.md 15.4). No event, status or explanation shows what the service says.
func TestTenantsProbesStayOutOfTheNode(t *testing.T) {
	var hooks, probes atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/hook" {
			hooks.Add(1)
		}
		probes.Add(1)
		fmt.Fprint(w, "secret of the node")
	}))
	defer service.Close()
	port := intstr.FromInt32(int32(service.Listener.Addr().(*net.TCPAddr).Port))
	probed := func(name, host string, hostNetwork bool) *v1.Pod {
		p := newPod(name)
		p.Spec.HostNetwork = hostNetwork
		c := &p.Spec.Containers[0]
		c.ReadinessProbe = &v1.Probe{PeriodSeconds: 1, FailureThreshold: 1, TimeoutSeconds: 5}
		c.ReadinessProbe.HTTPGet = &v1.HTTPGetAction{Host: host, Port: port}
		return p
	}
	hooked := newPod("hooked")
	hooked.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{
		HTTPGet: &v1.HTTPGetAction{Host: "127.0.0.1", Path: "/hook", Port: port},
	}}
	ready := func(r *rig, name string) error {
		if p := r.pod(newPod(name).UID); p == nil || len(p.Status.ContainerStatuses) == 0 || !p.Status.ContainerStatuses[0].Ready {
			return unmet(func() string { return fmt.Sprintf("%s is not ready: %+v", name, p) })
		}
		return nil
	}
	said := func(r *rig, event, want string) {
		t.Helper()
		r.within(10*time.Second, event, func() error {
			if got := strings.Join(r.events.said(event), ", "); !strings.Contains(got, want) {
				return unmet(func() string { return got })
			}
			return nil
		})
	}
	synctest.Test(t, func(t *testing.T) {
		root, rt := t.TempDir(), fake.New(fake.Options{})
		for range 2 { // the second life is that of a restarted agent
			r := newRig(t, rt, root).start()
			before := probes.Load()
			r.set(probed("tenant", "127.0.0.1", false), probed("cloud", "169.254.169.254", false), probed("operator", "127.0.0.1", true), hooked)
			r.within(10*time.Second, "the operator's pod is ready", func() error { return ready(r, "operator") })
			said(r, "tenant Unhealthy", "Readiness probe failed: 127.0.0.1 is refused: it is the node's own loopback")
			said(r, "cloud Unhealthy", "Readiness probe failed: 169.254.169.254 is refused: it is link-local")
			said(r, "hooked FailedPostStartHook", "127.0.0.1 is refused")
			if ready(r, "tenant") == nil || ready(r, "cloud") == nil {
				t.Error("a tenant's pod is ready")
			}
			if hooks.Load() != 0 || probes.Load() == before {
				t.Errorf("%d hooks came through, %d probes", hooks.Load(), probes.Load()-before)
			}
			shown := fmt.Sprint(r.events.texts)
			for _, p := range r.engine.Pods() {
				e, _ := r.engine.Explain(p.UID)
				shown += fmt.Sprintf("%+v %+v", p.Status, e)
			}
			if strings.Contains(shown, "secret of the node") {
				t.Error(shown)
			}
			r.stop()
		}
	})
}

// TestOutboundIsTheEnginesToAllow: probes may reach what Config.Outbound allows (spec/probe.md
// 11.5).
func TestOutboundIsTheEnginesToAllow(t *testing.T) {
	service := httptest.NewServer(http.NotFoundHandler())
	defer service.Close()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) {
			c.Outbound = probe.Outbound{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
		}).start()
		p := newPod("web")
		p.Spec.Containers[0].ReadinessProbe = &v1.Probe{PeriodSeconds: 1, TimeoutSeconds: 5}
		p.Spec.Containers[0].ReadinessProbe.TCPSocket = &v1.TCPSocketAction{
			Host: "127.0.0.1", Port: intstr.FromInt32(int32(service.Listener.Addr().(*net.TCPAddr).Port)),
		}
		r.set(p)
		r.within(10*time.Second, "the pod is ready", func() error {
			if now := r.pod(p.UID); now == nil || len(now.Status.ContainerStatuses) == 0 || !now.Status.ContainerStatuses[0].Ready {
				return unmet(func() string { return strings.Join(r.events.said("web Unhealthy"), "\n") })
			}
			return nil
		})
	})
}
