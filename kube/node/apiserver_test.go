//go:build apiserver

package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	enginenode "github.com/podwright/podwright/internal/node"
	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/kube/apitest"
)

// realAgent runs a registrar and the engine's caller of its hooks on a real API server, as
// system:node:edge-1.
func realAgent(t *testing.T, config *rest.Config, set func(o *Options)) *Registrar {
	t.Helper()
	connections := connrotation.NewDialer(connrotation.DialFunc((&net.Dialer{}).DialContext))
	config.Dial = connections.DialContext
	client := kubernetes.NewForConfigOrDie(config)
	o := Options{Name: "edge-1", Client: client, Reconnect: connections.CloseAll, Runtime: &cri{}, Images: &cri{}}
	if set != nil {
		set(&o)
	}
	registrar, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	caller := enginenode.NewHooks(enginenode.HookOptions{Hooks: registrar.Hooks(), State: engineState{}, Clock: clock.RealClock{}})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = registrar.Run(ctx) })
	wg.Go(func() { _ = caller.Run(ctx) })
	t.Cleanup(func() { cancel(); connections.CloseAll(); wg.Wait() })
	return registrar
}

// TestAPIServerNode: on a real API server with NodeRestriction the agent registers, publishes
// and renews (KN1, KN6, KW4), keeps what others write (KN1, KN12), comes back when its Node
// is deleted (KN7), and survives a connection that freezes within its lease (KN9).
func TestAPIServerNode(t *testing.T) {
	t.Parallel()
	cluster := apitest.Start(t, apitest.Options{})
	operator := kubernetes.NewForConfigOrDie(cluster.Admin())
	t.Cleanup(operator.RESTClient().(*rest.RESTClient).Client.CloseIdleConnections)
	proxy, err := apitest.NewProxy(cluster.Node("edge-1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	address := v1.NodeAddress{Type: v1.NodeInternalIP, Address: "10.0.0.1"}
	registrar := realAgent(t, proxy.Config(cluster.Node("edge-1")), func(o *Options) {
		o.Labels = map[string]string{"site": "north"}
		o.Addresses = func() []v1.NodeAddress {
			return []v1.NodeAddress{address, {Type: v1.NodeInternalIP, Address: "fd00::1"}}
		}
	})
	ctx := t.Context()
	get := func() *v1.Node {
		node, err := operator.CoreV1().Nodes().Get(ctx, "edge-1", metav1.GetOptions{})
		if err != nil {
			return &v1.Node{}
		}
		return node
	}
	ready := func() bool {
		node := get()
		return len(node.Status.Conditions) == 1 && node.Status.Conditions[0].Status == v1.ConditionTrue && len(node.Status.Addresses) == 2
	}
	patience.Until(t, "Ready", ready)
	patience.Until(t, "lease", func() bool {
		lease, err := operator.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(ctx, "edge-1", metav1.GetOptions{})
		return err == nil && lease.OwnerReferences[0].UID == registrar.nodeUID()
	})

	// What others write stays.
	node := get()
	node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: "maintenance", Effect: v1.TaintEffectNoSchedule})
	node.Labels["rack"] = "7"
	if node, err = operator.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions = append(node.Status.Conditions, v1.NodeCondition{Type: v1.NodeNetworkUnavailable, Status: v1.ConditionFalse})
	node.Status.VolumesAttached = []v1.AttachedVolume{{Name: "csi/1"}}
	if _, err = operator.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "the watch shows it", func() bool { o := registrar.Object(); return o != nil && len(o.Status.VolumesAttached) == 1 })
	heartbeat := func(node *v1.Node) time.Time {
		for _, c := range node.Status.Conditions {
			if c.Type == v1.NodeReady {
				return c.LastHeartbeatTime.Time
			}
		}
		return time.Time{}
	}
	beat := heartbeat(node)
	patience.Until(t, "the time, in whole seconds, is another", func() bool { return time.Since(beat) >= 2*time.Second })
	registrar.signal()
	patience.Until(t, "published again", func() bool { node = get(); return heartbeat(node).After(beat) })
	if len(node.Spec.Taints) == 0 || node.Labels["rack"] != "7" || len(node.Status.Conditions) != 2 || len(node.Status.VolumesAttached) != 1 || len(node.Status.Addresses) != 2 {
		t.Errorf("what others wrote is gone: %+v", node)
	}

	// A Node that is deleted comes back.
	was := node.UID
	if err := operator.CoreV1().Nodes().Delete(ctx, "edge-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "the deleted Node is back and Ready", func() bool { return get().UID != was && ready() })

	// A frozen connection: the lease goes on over another one.
	renewed := func() time.Time {
		lease, err := operator.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(ctx, "edge-1", metav1.GetOptions{})
		if err != nil {
			return time.Time{}
		}
		return lease.Spec.RenewTime.Time
	}
	before := renewed()
	proxy.Freeze()
	patience.Until(t, "the frozen connections are given up", func() bool { return time.Since(before) > 12*time.Second })
	proxy.Thaw()
	if patience.Until(t, "the lease is renewed", func() bool { return renewed().After(before) }); time.Since(before) > 40*time.Second {
		t.Errorf("the lease ran out: %s", time.Since(before))
	}
}

// TestAPIServerRegistration: on a real API server, who is refused as a Node and told why, and what
// outlives the agent that registered.
func TestAPIServerRegistration(t *testing.T) {
	t.Parallel()
	cluster := apitest.Start(t, apitest.Options{})
	t.Run("refusals", func(t *testing.T) { refusals(t, cluster) })
	t.Run("lives", func(t *testing.T) { lives(t, cluster) })
}

// shifted moves the Date of what an API server answers, as if its clock was ahead.
type shifted struct {
	inner http.RoundTripper
	ahead time.Duration
}

func (d shifted) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := d.inner.RoundTrip(request)
	if err == nil {
		if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			response.Header.Set("Date", date.Add(d.ahead).Format(http.TimeFormat))
		}
	}
	return response, err
}

// lives: a machine keeps its Node from another one (KN1) as long as it renews its lease, whatever
// the API server's clock says (KN10), and a restart changes no transition time (KN5).
func lives(t *testing.T, cluster *apitest.Cluster) {
	operator := kubernetes.NewForConfigOrDie(cluster.Admin())
	defer operator.RESTClient().(*rest.RESTClient).Client.CloseIdleConnections()
	ctx, was := t.Context(), &v1.Node{}
	get := func() *v1.Node {
		node, err := operator.CoreV1().Nodes().Get(ctx, "edge-1", metav1.GetOptions{})
		if err != nil || len(node.Status.Conditions) != 1 {
			return &v1.Node{Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{}}}}
		}
		return node
	}
	lease := func() *coordinationv1.Lease {
		lease, err := operator.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(ctx, "edge-1", metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return lease
	}
	machine := func(id string) func(o *Options) {
		return func(o *Options) { o.Info = v1.NodeSystemInfo{MachineID: id, SystemUUID: id} }
	}
	client := kubernetes.NewForConfigOrDie(cluster.Node("edge-1"))
	defer client.RESTClient().(*rest.RESTClient).Client.CloseIdleConnections()
	o := Options{Name: "edge-1", Client: client, Labels: map[string]string{"owner": "two"}}
	machine("two")(&o)
	other, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	takeOver := func() error { return other.register(ctx) }
	t.Run("first life", func(t *testing.T) {
		skew, told, config := &Skew{}, &rig{t: t}, cluster.Node("edge-1")
		config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return shifted{inner, time.Hour} })
		config.Wrap(skew.Wrap)
		realAgent(t, config, func(o *Options) {
			machine("one")(o)
			o.Skew, o.Events = skew, told
		})
		patience.Until(t, "Ready", func() bool { was = get(); return was.Status.Conditions[0].Status == v1.ConditionTrue })
		patience.Until(t, "lease", func() bool { return lease() != nil })
		if err := takeOver(); !errors.Is(err, ErrTaken) || !errorContains(err, `"one"`) || !errorContains(err, `"two"`) {
			t.Errorf("KN1: another machine: %v", err)
		}
		if node := get(); node.Labels["owner"] != "" || node.Status.NodeInfo.MachineID != "one" {
			t.Errorf("KN1: another machine changed the Node: %v, %+v", node.Labels, node.Status.NodeInfo)
		}
		events := func() []string {
			told.mu.Lock()
			defer told.mu.Unlock()
			return told.events
		}
		before := lease().Spec.RenewTime.Time
		patience.Until(t, "the clocks differ", func() bool { return len(events()) > 0 })
		patience.Until(t, "the lease is renewed", func() bool { return lease().Spec.RenewTime.After(before) })
		if list := events(); len(list) != 1 || !strings.HasPrefix(list[0], "ClockSkew") || skew.ahead().Round(time.Minute) != time.Hour {
			t.Errorf("KN10: off by %s, told %q", skew.ahead(), list)
		}
	})
	t.Run("second life", func(t *testing.T) {
		beat := get().Status.Conditions[0].LastHeartbeatTime
		realAgent(t, cluster.Node("edge-1"), machine("one"))
		node := &v1.Node{}
		patience.Until(t, "published again", func() bool { node = get(); return node.Status.Conditions[0].LastHeartbeatTime.After(beat.Time) })
		if now, then := node.Status.Conditions[0].LastTransitionTime, was.Status.Conditions[0].LastTransitionTime; node.UID != was.UID || !now.Equal(&then) {
			t.Errorf("KN5: Ready since %s after a restart, before since %s", now, then)
		}
	})
	last := lease()
	last.Spec.LeaseDurationSeconds = ptr.To[int32](1) // so that it runs out soon
	if _, err := operator.CoordinationV1().Leases(v1.NamespaceNodeLease).Update(ctx, last, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "KN1: after the lease", func() bool { return takeOver() == nil && get().Labels["owner"] == "two" })
}

// refusals: the wrong name, the wrong user and no credentials are errors that say what is missing.
func refusals(t *testing.T, cluster *apitest.Cluster) {
	for name, c := range map[string]struct {
		config *rest.Config
		want   []string
	}{
		"certificate of another node": {cluster.Node("edge-2"), []string{"forbidden", `node "edge-2" is not allowed`, "another name"}},
		"no role":                     {cluster.User("somebody"), []string{`cannot create resource "nodes"`, "lacks a role"}},
		"expired certificate":         {cluster.Expired("system:node:edge-1", "system:nodes"), []string{"Unauthorized", "expired"}},
		"unknown authority":           {stranger(cluster.Node("edge-1")), []string{"certificate signed by unknown authority"}},
	} {
		t.Run(name, func(t *testing.T) {
			client := kubernetes.NewForConfigOrDie(c.config)
			defer client.RESTClient().(*rest.RESTClient).Client.CloseIdleConnections()
			registrar, err := New(Options{Name: "edge-1", Client: client})
			if err != nil {
				t.Fatal(err)
			}
			err = registrar.register(t.Context())
			if err == nil {
				t.Fatal("registered")
			}
			for _, want := range c.want {
				if !errorContains(err, want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
		})
	}
}

// stranger does not trust the cluster's authority.
func stranger(config *rest.Config) *rest.Config {
	config.CAData = nil
	return config
}

func errorContains(err error, text string) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}
