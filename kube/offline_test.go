package kube

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/podwright/podwright/kube/objects"
	"github.com/podwright/podwright/kube/offline"
)

// KO8: what no pod needs goes; a pod that has ended needs nothing that was issued to it.
func TestWantedEntries(t *testing.T) {
	pod := func(namespace, uid, account string, phase v1.PodPhase, volumes ...v1.Volume) v1.Pod {
		return v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: uid},
			Spec:       v1.PodSpec{ServiceAccountName: account, Volumes: volumes}, Status: v1.PodStatus{Phase: phase},
		}
	}
	pods := []v1.Pod{pod("a", "u1", "robot", v1.PodRunning), pod("b", "u2", "other", v1.PodSucceeded)}
	pods[0].UID, pods[1].UID = "u1", "u2"
	inUse := func(o objects.Object) bool { return o.Name == "used" }
	want := wanted(pods, inUse)
	for e, w := range map[offline.Entry]bool{
		{Kind: offline.Secret, Namespace: "a", Name: "used"}:          true,
		{Kind: offline.ConfigMap, Namespace: "a", Name: "unused"}:     false,
		{Kind: offline.Token, Name: "t", Pod: "u1"}:                   true,
		{Kind: offline.Token, Name: "t", Pod: "u2"}:                   false,
		{Kind: offline.PodCertificate, Name: "c", Pod: "u1"}:          true,
		{Kind: offline.PodCertificate, Name: "c", Pod: "gone"}:        false,
		{Kind: offline.Services, Namespace: "a"}:                      true,
		{Kind: offline.Services, Namespace: "b"}:                      false,
		{Kind: offline.Services, Namespace: "default"}:                true,
		{Kind: offline.ServiceAccount, Namespace: "a", Name: "robot"}: true,
		{Kind: offline.ServiceAccount, Namespace: "b", Name: "other"}: false,
		{Kind: offline.TrustBundle, Name: "roots"}:                    false,
		{Kind: offline.Node}:                                          true,
		{Kind: offline.RuntimeClasses}:                                true,
		{Kind: "of a newer version"}:                                  false,
	} {
		if want(e) != w {
			t.Errorf("%s is wanted: %t", e, !w)
		}
	}
	pods[0].Spec.Volumes = []v1.Volume{{}, {VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{}}}}}}}
	if !wanted(pods, inUse)(offline.Entry{Kind: offline.TrustBundle, Name: "roots"}) {
		t.Error("the trust bundle of a pod is not wanted")
	}
}

// KO8: without an API server the Node has the labels and addresses that it had, until it is watched.
func TestNodeIsKnownOffline(t *testing.T) {
	c := newConfig(t)
	var addresses []v1.NodeAddress
	o := Options{Config: &rest.Config{Host: "https://127.0.0.1:1"}, Offline: Offline{Cache: true}}
	o.Node.Addresses = func() []v1.NodeAddress { return addresses }
	first, err := New(o, &c)
	if err != nil {
		t.Fatal(err)
	}
	addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}}
	if got := c.Node.Addresses(); !slices.Equal(got, []string{"10.0.0.1"}) || c.Node.Object() != nil {
		t.Errorf("at first: addresses %q", got)
	}
	watched := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "edge-1", UID: "u", Labels: map[string]string{"site": "north"}},
		Status:     v1.NodeStatus{Addresses: addresses, Images: make([]v1.ContainerImage, 50)},
	}
	for range 2 {
		if got := first.keeping.node(watched); got != watched {
			t.Errorf("the Node that is watched is %v", got)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first.keeping.cache.Run(ended); err != nil {
		t.Fatal(err)
	}

	again := newConfig(t)
	again.RootDir = c.RootDir
	addresses = nil
	if _, err := New(o, &again); err != nil {
		t.Fatal(err)
	}
	if node := again.Node.Object(); node == nil || node.Labels["site"] != "north" || node.Status.Images != nil {
		t.Errorf("after a boot: %v", node)
	}
	if got := again.Node.Addresses(); !slices.Equal(got, []string{"10.0.0.1"}) {
		t.Errorf("after a boot: addresses %q", got)
	}
}

// KO8, KW2: an agent with a cache, and an API server that cannot be reached, runs and leaves no goroutine. Settings without a
// cache, and a folder that cannot be one, are refused.
func TestRunWithCache(t *testing.T) {
	c := newConfig(t)
	api := &rest.Config{Host: "https://127.0.0.1:1"}
	a, err := New(Options{Config: api, Offline: Offline{Cache: true}}, &c)
	if err != nil {
		t.Fatal(err)
	}
	_, stop := runAgent(t, a)
	a.keeping.heard()
	a.keeping.heard()
	stop()
	for want, o := range map[string]Offline{
		"Offline.Cache":        {Dir: filepath.Join(t.TempDir(), "x")},
		"not an absolute path": {Cache: true, Dir: "x"},
		"is not a key":         {Cache: true, Keys: []offline.Key{{}}},
	} {
		c := newConfig(t)
		if _, err := New(Options{Config: api, Offline: o}, &c); err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, context.Canceled) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
