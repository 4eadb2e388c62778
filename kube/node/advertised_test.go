package node

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
)

const dongle = v1.ResourceName("example.com/dongle")

// advertise writes how many dongles the Node has, as an administrator does; none if n is 0.
func (r *rig) advertise(n int64) {
	r.t.Helper()
	node := r.node().DeepCopy()
	if node.Status.Capacity == nil {
		node.Status.Capacity = v1.ResourceList{}
	}
	if node.Status.Capacity[dongle] = *resource.NewQuantity(n, resource.DecimalSI); n == 0 {
		delete(node.Status.Capacity, dongle)
	}
	if err := r.api.Tracker().Update(v1.SchemeGroupVersion.WithResource("nodes"), node, ""); err != nil {
		r.t.Fatal(err)
	}
}

// shows checks how many dongles the Node has, and pods may use.
func (r *rig) shows(registrar *Registrar, n int64) {
	r.t.Helper()
	s := r.node().Status
	for what, list := range map[string]v1.ResourceList{"capacity": s.Capacity, "allocatable": s.Allocatable, "admission": registrar.Allocatable()} {
		if got := list[dongle]; got.Value() != n {
			r.t.Errorf("%s: %d dongles, want %d", what, got.Value(), n)
		}
	}
}

// TestAdvertisedResources (KN12, KN13): what an administrator advertises stays, pods may use it, and it goes when the
// administrator takes it away.
func TestAdvertisedResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		registrar, stop := r.start(nil)
		after(time.Minute)
		r.advertise(4)
		after(20 * time.Second)
		r.shows(registrar, 4)
		r.api.ClearActions()
		after(10 * time.Minute)
		r.shows(registrar, 4)
		if n := r.count("patch nodes/status"); n != 2 {
			t.Errorf("%d statuses of an unchanged Node in 10 min", n)
		}
		stop()
		registrar, _ = r.start(nil)
		after(time.Minute)
		r.shows(registrar, 4)
		r.advertise(2)
		after(20 * time.Second)
		r.shows(registrar, 2)
		r.advertise(0)
		after(20 * time.Second)
		r.shows(registrar, 0)
	})
}

// TestResourcesOfAFormerKubelet (KN12): its devices are not advertised any more, nor those that the agent itself says it has.
func TestResourcesOfAFormerKubelet(t *testing.T) {
	for name, tc := range map[string]struct {
		version string
		set     func(o *Options)
		want    int64
	}{
		"a kubelet's":                 {"v1.33.1", nil, 0},
		"another agent's":             {"v1.33.1+k3s1", nil, 0},
		"this one's, of last year":    {"v1.36.0+podwright", nil, 3},
		"another build of this one":   {"v1.36.0+podwright.7", nil, 3},
		"the agent knows what it has": {version, func(o *Options) { o.Capacity = func() v1.ResourceList { return v1.ResourceList{} } }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := existing("this")
				node.Status.NodeInfo.KubeletVersion = tc.version
				r := newRig(t, []apiruntime.Object{node}...)
				r.advertise(3)
				registrar, _ := r.start(tc.set)
				after(time.Second)
				r.shows(registrar, tc.want)
				after(6 * time.Minute)
				r.shows(registrar, tc.want)
			})
		})
	}
}
