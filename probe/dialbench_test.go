package probe

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// noPods is a node without pods.
type noPods struct{}

func (noPods) View(types.UID) (View, bool) { return View{}, false }

// BenchmarkNetworkProbe is one attempt of a probe at a server on this machine.
func BenchmarkNetworkProbe(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
	defer server.Close()
	port := intstr.FromInt32(int32(server.Listener.Addr().(*net.TCPAddr).Port))
	m, err := New(Options{Pods: noPods{}})
	if err != nil {
		b.Fatal(err)
	}
	for name, p := range map[string]*v1.Probe{
		"http": {ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: port}}},
		"tcp":  {ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: port}}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			t := Target{Pod: &v1.Pod{}, Container: &v1.Container{}, Probe: p, PodIP: "127.0.0.1"}
			for b.Loop() {
				h, err := m.handler(p)
				if err != nil {
					b.Fatal(err)
				}
				if got, err := h.Probe(b.Context(), t); err != nil || got.Result != Success {
					b.Fatal(got, err)
				}
			}
		})
	}
}
