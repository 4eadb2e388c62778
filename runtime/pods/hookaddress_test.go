package pods_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// kills are the ways in which a container of a pod comes to be stopped.
var kills = map[string]func(w *world, pod *v1.Pod, results probes) error{
	"deletion": func(w *world, pod *v1.Pod, _ probes) error {
		return w.m.KillPod(w.t.Context(), pod, w.read(pod), nil)
	},
	"deletion, by the lists": func(w *world, pod *v1.Pod, _ probes) error {
		return w.m.KillPod(w.t.Context(), pod, nil, nil)
	},
	"orphan": func(w *world, pod *v1.Pod, _ probes) error {
		return w.m.KillPod(w.t.Context(), nil, w.read(pod), nil)
	},
	"orphan, by the lists": func(w *world, pod *v1.Pod, _ probes) error {
		listed, err := w.view.ListPod(w.t.Context(), pod.UID)
		if err != nil {
			return err
		}
		return w.m.KillRuntimePod(w.t.Context(), listed, ptr.To[int64](30))
	},
	"liveness": func(w *world, pod *v1.Pod, results probes) error {
		pod.Spec.Containers[0].LivenessProbe = &v1.Probe{}
		results["app"] = [2]pods.ProbeResult{proberesult.Unknown, proberesult.Failure}
		return w.sync(pod).Err
	},
	"another image": func(w *world, pod *v1.Pod, _ probes) error {
		pod.Spec.Containers[0].Image = "example.com/app:2"
		return w.sync(pod).Err
	},
}

// asking returns a preStop hook that asks a server, and the requests that this gets until the test ends.
func asking(t *testing.T) (got *requests, hook *v1.Lifecycle) {
	got = &requests{}
	server := httptest.NewServer(got)
	t.Cleanup(server.Close)
	return got, preStop(v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{
		Path: "/bye", Port: intstr.FromInt32(int32(server.Listener.Addr().(*net.TCPAddr).Port)),
	}})
}

// spec/runtime.md 15: a preStop hook without a host reaches the pod whichever way its
// container comes to be stopped, on the node's network too.
func TestPreStopFindsThePod(t *testing.T) {
	for name, kill := range kills {
		for network, host := range map[string]bool{"pod network": false, "host network": true} {
			t.Run(name+"/"+network, func(t *testing.T) {
				got, hook := asking(t)
				results := probes{}
				var w *world
				pod := newPod(func(p *v1.Pod) {
					p.Spec.HostNetwork = host
					p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
					p.Spec.Containers[0].Lifecycle = hook
				})
				w = newWorldOn(t, fake.Options{PodIPs: netip.MustParsePrefix("127.0.0.0/16")}, func(o *pods.Options) {
					o.HostIPs = func() []string { return []string{"127.0.0.1"} }
					o.Probes = probeSource{by: results, view: func() *runtime.PodStatus { return w.read(pod) }}
				})
				w.syncAll(pod)
				if err := kill(w, pod, results); err != nil {
					t.Fatal(err)
				}
				if len(got.all) != 1 || w.events.has("Warning FailedPreStopHook") {
					t.Errorf("requests %q, events %v", got.all, w.events.list())
				}
			})
		}
	}
}

// spec/runtime.md 15.3: an httpGet hook whose pod's address could not be read, as the connection to the runtime was
// lost meanwhile, was not made: the next kill makes it.
func TestPreStopRunsAgainIfTheAddressWasNotRead(t *testing.T) {
	for method, from := range map[fake.Method]int{fake.ListPodSandbox: 2, fake.PodSandboxStatus: 1} { // the kill lists first
		t.Run(string(method), func(t *testing.T) {
			got, hook := asking(t)
			w := newWorldOn(t, fake.Options{PodIPs: netip.MustParsePrefix("127.0.0.0/16")})
			pod := newPod(func(p *v1.Pod) {
				p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
				p.Spec.Containers[0].Lifecycle = hook
			})
			w.syncAll(pod)
			w.fake.Inject(fake.Fault{Match: fake.Match{Method: method}, From: from, Times: 1, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
			for _, stop := range []fake.Method{fake.StopContainer, fake.StopPodSandbox} {
				w.fake.Inject(fake.Fault{Match: fake.Match{Method: stop}, Times: 1, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
			}
			if err := w.m.KillPod(t.Context(), pod, nil, nil); err == nil {
				t.Fatal("the first kill stopped the pod")
			}
			if err := w.m.KillPod(t.Context(), pod, nil, nil); err != nil {
				t.Fatal(err)
			}
			if len(got.all) != 1 {
				t.Errorf("requests %q, want one", got.all)
			}
		})
	}
}

// spec/runtime.md 15: a hook on the node's network goes where the node is when it runs, although
// the node's address changed while the pod's image was pulled.
func TestPostStartFollowsTheNodesAddress(t *testing.T) {
	got := &requests{}
	server := httptest.NewServer(got)
	defer server.Close()
	address := "192.0.2.1"
	w := newWorldOn(t, fake.Options{Script: func(fake.Launch) fake.Script {
		address = "127.0.0.1"
		return fake.Script{}
	}}, func(o *pods.Options) { o.HostIPs = func() []string { return []string{address} } })
	r := w.sync(newPod(func(p *v1.Pod) {
		p.Spec.HostNetwork = true
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{
			Path: "/hi", Port: intstr.FromInt32(int32(server.Listener.Addr().(*net.TCPAddr).Port)),
		}}}
	}))
	if r.Err != nil || len(got.all) != 1 {
		t.Errorf("%v, requests %q", r.Err, got.all)
	}
}

// spec/runtime.md 15, 15.1: so does the preStop hook of a container whose postStart hook
// failed.
func TestPreStopAfterFailedPostStartFindsThePod(t *testing.T) {
	got, hook := asking(t)
	w := newWorldOn(t, fake.Options{PodIPs: netip.MustParsePrefix("127.0.0.0/16")})
	pod := newPod(func(p *v1.Pod) {
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
		p.Spec.Containers[0].Lifecycle = hook
		p.Spec.Containers[0].Lifecycle.PostStart = &v1.LifecycleHandler{}
	})
	if r := w.sync(pod); starts(r)[0].Reason != "PostStartHookError" {
		t.Fatalf("start %+v", starts(r))
	}
	if len(got.all) != 1 || w.events.has("Warning FailedPreStopHook") {
		t.Errorf("requests %q, events %v", got.all, w.events.list())
	}
}

// spec/runtime.md 15, 21.5: so does that of a container that restarts to be resized.
func TestPreStopBeforeAResizeFindsThePod(t *testing.T) {
	got, hook := asking(t)
	w := newResizeWorld(t, false)
	w.opts.HostIPs = func() []string { return []string{"127.0.0.1"} }
	w.reload()
	sized := func(text string) *v1.Pod {
		pod := apps(text)
		pod.Spec.HostNetwork = true
		c := &pod.Spec.Containers[0]
		c.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
		c.Lifecycle = hook
		return pod
	}
	w.to(sized("1 1000"))
	larger := sized("1 2000")
	larger.Generation++
	if r := w.to(larger); r.Err != nil || len(starts(r)) != 1 {
		t.Fatalf("%+v", r)
	}
	if len(got.all) != 1 || w.events.has("Warning FailedPreStopHook") {
		t.Errorf("requests %q, events %v", got.all, w.events.list())
	}
}

// spec/runtime.md 15, spec/probe.md 5.3: the headers of a hook are made as those of a
// probe: the user's replace the default ones, and an empty Accept leaves it out.
func TestHookHeaders(t *testing.T) {
	for name, tc := range map[string]struct {
		given         []v1.HTTPHeader
		agent, accept string
	}{
		"none":         {nil, "kube-lifecycle/1.37", "[*/*]"},
		"own":          {[]v1.HTTPHeader{{Name: "user-agent", Value: "me"}, {Name: "accept", Value: "text/plain"}}, "me", "[text/plain]"},
		"empty accept": {[]v1.HTTPHeader{{Name: "Accept"}}, "kube-lifecycle/1.37", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			headers := make(chan http.Header, 1)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { headers <- q.Header }))
			defer server.Close()
			w := newWorldOn(t, fake.Options{PodIPs: netip.MustParsePrefix("127.0.0.0/16")})
			pod := newPod(func(p *v1.Pod) {
				p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{
					Port: intstr.FromInt32(int32(server.Listener.Addr().(*net.TCPAddr).Port)), HTTPHeaders: tc.given,
				}}}
			})
			if r := w.sync(pod); r.Err != nil {
				t.Fatal(r.Err)
			}
			got := <-headers
			if agent, accept := got["User-Agent"], fmt.Sprint(got["Accept"]); len(agent) != 1 || agent[0] != tc.agent || accept != tc.accept {
				t.Errorf("agent %q, accept %s", agent, accept)
			}
			if encodings, named := got["Accept-Encoding"]; named {
				t.Errorf("encodings %q", encodings)
			}
		})
	}
}
