package pods_test

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podwright/podwright/runtime/pods"
)

// requests collects what a hook's server got.
type requests struct {
	mu  sync.Mutex
	all []string
}

func (r *requests) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, strings.Join([]string{
		q.URL.RequestURI(), q.Host, q.Header.Get("User-Agent"), q.Header.Get("X-A"), q.Header.Get("Authorization"),
	}, " "))
	switch q.URL.Path {
	case "/elsewhere":
		http.Redirect(w, q, "http://192.0.2.1/", http.StatusFound)
	case "/broken":
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// spec/runtime.md 15: httpGet hooks, over real connections.
func TestHTTPHook(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(get *v1.HTTPGetAction, c *v1.Container)
		tls    bool
		want   string // the last request, "" if none may come
		fails  bool
		event  string
	}{
		{name: "plain", want: "/x?y=1 HOST kube-lifecycle/1.37 a secret"},
		{name: "no slash", change: func(g *v1.HTTPGetAction, _ *v1.Container) { g.Path = "x" }, want: "/x HOST kube-lifecycle/1.37 a secret"},
		{name: "host header", change: func(g *v1.HTTPGetAction, _ *v1.Container) {
			g.HTTPHeaders = []v1.HTTPHeader{{Name: "host", Value: "me"}}
		}, want: "/x?y=1 me kube-lifecycle/1.37  "},
		{name: "any answer is a success", change: func(g *v1.HTTPGetAction, _ *v1.Container) { g.Path = "/broken" }, want: "/broken HOST kube-lifecycle/1.37 a secret"},
		{name: "redirect to another host", change: func(g *v1.HTTPGetAction, _ *v1.Container) { g.Path = "/elsewhere" }, want: "/elsewhere HOST kube-lifecycle/1.37 a secret"},
		{name: "named port", change: func(g *v1.HTTPGetAction, c *v1.Container) {
			c.Ports = []v1.ContainerPort{{Name: "web", ContainerPort: g.Port.IntVal}}
			g.Port = intstr.FromString("web")
		}, want: "/x?y=1 HOST kube-lifecycle/1.37 a secret"},
		{name: "the first port of a name", change: func(g *v1.HTTPGetAction, c *v1.Container) {
			c.Ports = []v1.ContainerPort{{Name: "web", ContainerPort: g.Port.IntVal}, {Name: "web", ContainerPort: 1}}
			g.Port = intstr.FromString("web")
		}, want: "/x?y=1 HOST kube-lifecycle/1.37 a secret"},
		{name: "host in brackets", change: func(g *v1.HTTPGetAction, _ *v1.Container) {
			g.Host = "[::ffff:127.0.0.1]"
		}, want: "/x?y=1 [::ffff:127.0.0.1]:PORT kube-lifecycle/1.37 a secret"},
		{name: "unknown port", change: func(g *v1.HTTPGetAction, _ *v1.Container) { g.Port = intstr.FromString("none") }, fails: true},
		{name: "bad scheme", change: func(g *v1.HTTPGetAction, _ *v1.Container) { g.Scheme = "GOPHER" }, fails: true},
		{name: "TLS without verification", tls: true, change: func(g *v1.HTTPGetAction, _ *v1.Container) { g.Scheme = v1.URISchemeHTTPS }, want: "/x?y=1 HOST kube-lifecycle/1.37 a secret"},
		{
			name: "plain answer to TLS: once more without credentials", event: "Warning LifecycleHTTPFallback",
			change: func(g *v1.HTTPGetAction, _ *v1.Container) { g.Scheme = v1.URISchemeHTTPS }, want: "/x?y=1 HOST kube-lifecycle/1.37 a ",
		},
		{name: "nothing listens", change: func(g *v1.HTTPGetAction, _ *v1.Container) { g.Port = intstr.FromInt32(1) }, fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := &requests{}
			server := httptest.NewUnstartedServer(got)
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			if tc.tls {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			address := server.Listener.Addr().(*net.TCPAddr)
			w := newWorld(t, nil, func(o *pods.Options) { o.HostIPs = func() []string { return []string{"127.0.0.1"} } })
			pod := newPod(func(p *v1.Pod) {
				p.Spec.HostNetwork = true // its address is the node's
				c := &p.Spec.Containers[0]
				get := &v1.HTTPGetAction{
					Path: "/x?y=1", Port: intstr.FromInt32(int32(address.Port)),
					HTTPHeaders: []v1.HTTPHeader{{Name: "X-A", Value: "a"}, {Name: "Authorization", Value: "secret"}},
				}
				c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{HTTPGet: get}}
				if tc.change != nil {
					tc.change(get, c)
				}
			})
			r := w.sync(pod)
			if failed := starts(r)[0].Reason == "PostStartHookError"; failed != tc.fails {
				t.Fatalf("start %+v", starts(r))
			}
			port := strconv.Itoa(address.Port)
			want := strings.NewReplacer("HOST", "127.0.0.1:"+port, "PORT", port).Replace(tc.want)
			if last := append([]string{""}, got.all...); last[len(last)-1] != want {
				t.Errorf("got %q, want %q", got.all, want)
			}
			if tc.event != "" && !w.events.has(tc.event) {
				t.Errorf("no event %q in %v", tc.event, w.events.list())
			}
		})
	}
}
