package node

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// existing is a Node of an earlier life of the agent, with what others wrote.
func existing(machine string) *v1.Node {
	long := metav1.NewTime(time.Now().Add(-24 * time.Hour).Truncate(time.Second))
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "edge-1", UID: "old", Annotations: map[string]string{"csi": "theirs"},
			Labels: map[string]string{"rack": "7", "zone": "old"},
		},
		Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: "maintenance", Effect: v1.TaintEffectNoSchedule}}, PodCIDR: "10.1.0.0/24", Unschedulable: true},
		Status: v1.NodeStatus{
			NodeInfo:     v1.NodeSystemInfo{MachineID: machine, SystemUUID: machine},
			Conditions:   []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, LastTransitionTime: long}, {Type: v1.NodeNetworkUnavailable, Status: v1.ConditionFalse, Reason: "CNI"}},
			Addresses:    []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeInternalIP, Address: "fd00::1"}},
			VolumesInUse: []v1.UniqueVolumeName{"csi/1"}, VolumesAttached: []v1.AttachedVolume{{Name: "csi/1", DevicePath: "/dev/sda"}},
		},
	}
}

// TestRegistersNewNode (KN1): a Node with labels, taints and what the machine has.
func TestRegistersNewNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		taints := []v1.Taint{{Key: "edge", Effect: v1.TaintEffectNoExecute}}
		registrar, _ := r.start(func(o *Options) {
			o.Labels, o.Taints, o.Port = map[string]string{"zone": "here"}, taints, 10250
		})
		after(time.Second)
		node := r.node()
		if diff := cmp.Diff(taints, node.Spec.Taints); diff != "" {
			t.Error(diff)
		}
		for key, want := range map[string]string{"zone": "here", v1.LabelHostname: "edge-1", v1.LabelOSStable: "linux"} {
			if node.Labels[key] != want {
				t.Errorf("label %s = %q, want %q", key, node.Labels[key], want)
			}
		}
		if node.Status.Capacity.Pods().Value() != 110 || node.Status.Capacity.Cpu().IsZero() || node.Status.Capacity.Memory().IsZero() {
			t.Errorf("capacity %v", node.Status.Capacity)
		}
		if got := node.Status.DaemonEndpoints.KubeletEndpoint.Port; got != 10250 {
			t.Errorf("port %d", got)
		}
		if info := node.Status.NodeInfo; info.ContainerRuntimeVersion != "containerd://2.1.4" || info.KubeletVersion != version {
			t.Errorf("nodeInfo %+v", info)
		}
		if len(node.Status.RuntimeHandlers) != 2 || node.Status.RuntimeHandlers[1].Name != "runc" {
			t.Errorf("runtime handlers %v", node.Status.RuntimeHandlers)
		}
		if c := node.Status.Conditions; len(c) != 1 || c[0].Status != v1.ConditionTrue {
			t.Errorf("conditions %v", c)
		}
		select {
		case <-registrar.Registered():
		default:
			t.Error("Registered is not closed")
		}
		if registrar.nodeUID() != node.UID {
			t.Errorf("UID %q, want %q", registrar.nodeUID(), node.UID)
		}
	})
}

// TestNodeIsKnownOnceRegistered (KS2, SN3): pods are read from then on, and judged by the Node's labels and taints, whenever its
// watch begins.
func TestNodeIsKnownOnceRegistered(t *testing.T) {
	for name, objects := range map[string][]apiruntime.Object{"new": nil, "existing": {existing("this")}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, objects...)
				r.api.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) { return true, nil, errAway })
				r.api.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, apiruntime.Object, error) { return true, nil, errAway })
				registrar, _ := r.start(nil)
				<-registrar.Registered()
				if node := registrar.Object(); node == nil || node.UID != registrar.nodeUID() || name == "existing" && node.Labels["rack"] != "7" {
					t.Errorf("%+v", node)
				}
			})
		})
	}
}

// TestKeepsWhatOthersWrote (KN1, KN5, KN12): on a Node that exists, only the agent's own
// fields change; a condition that is as it was keeps its transition time.
func TestKeepsWhatOthersWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was := existing("this")
		r := newRig(t, was.DeepCopy())
		r.start(func(o *Options) {
			o.Labels, o.Taints = map[string]string{"zone": "here"}, []v1.Taint{{Key: "edge", Effect: v1.TaintEffectNoExecute}}
			o.Addresses = func() []v1.NodeAddress { return []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.2"}} }
		})
		after(time.Second)
		node := r.node()
		for _, same := range []struct {
			name      string
			want, got any
		}{
			{"UID", was.UID, node.UID},
			{"annotations", was.Annotations, node.Annotations},
			{"label of another", "7", node.Labels["rack"]},
			{"own label", "here", node.Labels["zone"]},
			{"spec", was.Spec, node.Spec},
			{"volumes in use", was.Status.VolumesInUse, node.Status.VolumesInUse},
			{"volumes attached", was.Status.VolumesAttached, node.Status.VolumesAttached},
			{"condition of another", was.Status.Conditions[1], node.Status.Conditions[1]},
			{"transition time", was.Status.Conditions[0].LastTransitionTime.UTC(), node.Status.Conditions[0].LastTransitionTime.UTC()},
			{"addresses", []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.2"}}, node.Status.Addresses},
		} {
			if diff := cmp.Diff(same.want, same.got); diff != "" {
				t.Errorf("%s: %s", same.name, diff)
			}
		}
		if node.Status.Conditions[0].LastHeartbeatTime.IsZero() {
			t.Error("the condition has no heartbeat")
		}
	})
}

// TestUnchangedNodeIsWrittenEvery5Minutes (KN4), and its lease every 10 s (KN6), with no
// other request.
func TestUnchangedNodeIsWrittenEvery5Minutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start(nil)
		after(time.Minute)
		r.api.ClearActions()
		after(time.Hour)
		calls := map[string]int{}
		for _, a := range r.api.Actions() {
			calls[strings.TrimSuffix(a.GetVerb()+" "+a.GetResource().Resource+"/"+a.GetSubresource(), "/")]++
		}
		if diff := cmp.Diff(map[string]int{"patch nodes/status": 12, "update leases": 360}, calls); diff != "" {
			t.Error(diff)
		}
	})
}

// TestChangesArePublished within 10 s (KN3, KN11): images, addresses, capacity. A runtime
// that does not answer delays none of them.
func TestChangesArePublished(t *testing.T) {
	var address, cpu atomic.Pointer[string]
	changes := map[string]struct {
		change func(r *rig)
		shows  func(s v1.NodeStatus) bool
	}{
		"image": {
			func(r *rig) { r.runtime.add(&runtimeapi.Image{Id: "1", RepoTags: []string{"app:1"}, Size: 5}) },
			func(s v1.NodeStatus) bool { return len(s.Images) == 1 && s.Images[0].Names[0] == "app:1" },
		},
		"address": {
			func(*rig) { address.Store(ptr.To("10.0.0.2")) },
			func(s v1.NodeStatus) bool { return len(s.Addresses) == 1 && s.Addresses[0].Address == "10.0.0.2" },
		},
		"capacity, runtime deaf": {
			func(r *rig) {
				r.runtime.mu.Lock()
				r.runtime.deaf = true
				r.runtime.mu.Unlock()
				cpu.Store(ptr.To("8"))
			},
			func(s v1.NodeStatus) bool { return s.Capacity.Cpu().Value() == 8 },
		},
	}
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				address.Store(ptr.To("10.0.0.1"))
				cpu.Store(ptr.To("4"))
				r := newRig(t)
				r.start(func(o *Options) {
					o.Addresses = func() []v1.NodeAddress { return []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: *address.Load()}} }
					o.Capacity = func() v1.ResourceList { return v1.ResourceList{v1.ResourceCPU: resource.MustParse(*cpu.Load())} }
				})
				after(65 * time.Second)
				if c.shows(r.node().Status) {
					t.Fatal("it shows before the change")
				}
				c.change(r)
				after(20 * time.Second) // a look begins within 10 s; a deaf runtime takes 10 s of it
				if !c.shows(r.node().Status) {
					t.Errorf("not published: %+v", r.node().Status)
				}
			})
		})
	}
}

// TestLeaseIsOwnedByTheNode (KN6).
func TestLeaseIsOwnedByTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start(nil)
		after(35 * time.Second)
		lease := r.lease()
		if owner := lease.OwnerReferences; len(owner) != 1 || owner[0].Kind != "Node" || owner[0].UID != r.node().UID {
			t.Errorf("owner %v", owner)
		}
		if age := time.Since(lease.Spec.RenewTime.Time); age != 5*time.Second || *lease.Spec.LeaseDurationSeconds != 40 || *lease.Spec.HolderIdentity != "edge-1" {
			t.Errorf("renewed %s ago: %+v", age, lease.Spec)
		}
	})
}

func (r *rig) lease() *coordinationv1.Lease {
	r.t.Helper()
	object, err := r.api.Tracker().Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), v1.NamespaceNodeLease, "edge-1")
	if err != nil {
		r.t.Fatal(err)
	}
	return object.(*coordinationv1.Lease)
}

// TestDeletedNodeRejoins (KN7): the watch tells, a read confirms, and the agent registers
// again under a new UID; so too when the API server was away in between. The lease follows
// to the new owner.
func TestDeletedNodeRejoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		registrar, _ := r.start(nil)
		after(time.Minute)
		r.setAway(errAway)
		r.deleteNode()
		after(30 * time.Second)
		if registrar.nodeUID() != "node-1" {
			t.Errorf("an API server that does not answer was taken for a deleted Node")
		}
		r.setAway(nil)
		after(30 * time.Second)
		if node := r.node(); node.UID != "node-2" || registrar.nodeUID() != "node-2" || len(node.Status.Conditions) != 1 {
			t.Errorf("Node %q, agent %q, conditions %v", node.UID, registrar.nodeUID(), node.Status.Conditions)
		}
		if owner := r.lease().OwnerReferences; owner[0].UID != "node-2" {
			t.Errorf("the lease is owned by %v", owner)
		}
	})
}

// TestPageIsNoDeletedNode (KN7): a 404 page of something in front of the API server does not say that the Node, or its
// lease, was deleted.
func TestPageIsNoDeletedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		registrar, _ := r.start(func(o *Options) { o.Leave = true })
		after(time.Minute)
		r.setAway(apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: "nodes"}, "edge-1", "404 page not found", 0, true))
		after(10 * time.Minute)
		if registrar.nodeUID() != "node-1" || registrar.hasLeft() || r.count("create leases") != 1 {
			t.Errorf("UID %q, left: %t, %d leases created", registrar.nodeUID(), registrar.hasLeft(), r.count("create leases"))
		}
		if n := r.count("patch nodes/status"); n > 10*6+5 {
			t.Errorf("%d statuses in 10 min", n)
		}
		r.setAway(nil)
		after(30 * time.Second)
		if age := time.Since(r.lease().Spec.RenewTime.Time); age > 15*time.Second {
			t.Errorf("the lease is %s old", age)
		}
	})
}

// TestDeletedNodeLeaves (KN6, KN7): with Leave the agent says so, and neither
// registers, nor publishes, nor renews.
func TestDeletedNodeLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		registrar, _ := r.start(func(o *Options) { o.Leave = true })
		after(time.Minute)
		r.deleteNode()
		after(time.Second)
		select {
		case <-registrar.Gone():
		default:
			t.Fatal("Gone is not closed")
		}
		r.api.ClearActions()
		after(time.Hour)
		for _, call := range []string{"create nodes", "patch nodes/status", "update leases", "create leases"} {
			if n := r.count(call); n != 0 {
				t.Errorf("%s: %d calls", call, n)
			}
		}
	})
}

// TestNodeOfAnotherMachine (KN1): a Node that another machine renews is not taken over, whatever the clocks of the two machines
// say; once this machine has seen its lease unchanged for as long as it lasts, it is.
func TestNodeOfAnotherMachine(t *testing.T) {
	for name, off := range map[string]time.Duration{"same clock": 0, "its clock is behind": -time.Hour, "its clock is ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				renewed := func() *coordinationv1.Lease {
					return &coordinationv1.Lease{
						ObjectMeta: metav1.ObjectMeta{Name: "edge-1", Namespace: v1.NamespaceNodeLease},
						Spec:       coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(time.Now().Add(off))), LeaseDurationSeconds: ptr.To(int32(40))},
					}
				}
				r := newRig(t, existing("other"), renewed())
				registrar, _ := r.start(nil)
				after(30 * time.Second)
				if err := r.api.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), renewed(), v1.NamespaceNodeLease); err != nil {
					t.Fatal(err)
				}
				after(30 * time.Second)
				if uid := registrar.nodeUID(); uid != "" {
					t.Fatalf("registered as %s", uid)
				}
				err := registrar.register(t.Context())
				if err == nil || !strings.Contains(err.Error(), `"other"`) || !strings.Contains(err.Error(), "another node name") {
					t.Errorf("error %v", err)
				}
				after(time.Minute)
				if uid := registrar.nodeUID(); uid != "old" {
					t.Errorf("not registered after the lease has run out: %q", uid)
				}
			})
		})
	}
}

// TestDeadConnection (KN9): a renewal that hangs is given up, the connections are closed,
// and the next one succeeds, all within the lease.
func TestDeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var dead atomic.Bool
		r.api.PrependReactor("update", "leases", func(clienttesting.Action) (bool, apiruntime.Object, error) {
			r.mu.Lock()
			hangs := dead.Load() && r.reconnects == 0
			r.mu.Unlock()
			if hangs { // as a call over a connection that drops everything
				<-time.After(callLimit + time.Millisecond)
				return true, nil, errAway
			}
			return false, nil, nil
		})
		r.start(nil)
		after(time.Minute)
		dead.Store(true)
		after(30 * time.Second)
		if age := time.Since(r.lease().Spec.RenewTime.Time); age > 15*time.Second || r.reconnects != 1 {
			t.Errorf("the lease is %s old after %d reconnects", age, r.reconnects)
		}
	})
}

// TestBadOptions: every problem is named at once.
func TestBadOptions(t *testing.T) {
	_, err := New(Options{Name: "Not a name"})
	for _, want := range []string{`"Not a name"`, "no Client"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %s", err, want)
		}
	}
}
