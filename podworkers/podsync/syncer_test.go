package podsync

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop/admission"
)

// publishing lists the calls that publish a status.
var publishing = []string{"SetPodStatus", "Observed"}

// TestSyncPodPublishesBeforeAndAfterItsWork: the step publishes, grants, probes, acts,
// reads and publishes, and records no event.
func TestSyncPodPublishesBeforeAndAfterItsWork(t *testing.T) {
	n := newNode(t)
	n.results, n.view = []pods.Result{{Acted: true}}, viewOf(runtime.Running)
	result, err := n.syncer().SyncPod(t.Context(), podworkers.Create, web(), nil, nothing())
	if err != nil || !same(result, podworkers.SyncResult{Acted: true}) {
		t.Errorf("%+v, %v", result, err)
	}
	n.want("Syncing", "SetPodStatus", "Observed", "Allocate", "AddPod",
		"Hold", "SyncPod", "ReadNow", "Release", "Changed", "SetPodStatus", "Observed")
	if first, last := n.published[0].Phase, n.last().Phase; first != v1.PodPending || last != v1.PodRunning {
		t.Errorf("published %s, then %s", first, last)
	}
	if n.last().HostIP != "192.0.2.1" || n.last().PodIP != "10.0.0.1" {
		t.Errorf("addresses %s, %s", n.last().HostIP, n.last().PodIP)
	}
	if len(n.events) > 0 {
		t.Error(n.events)
	}
}

// TestPodAsItShouldBeIsNotReadAgain: a pod that is as it should be is not read again.
func TestPodAsItShouldBeIsNotReadAgain(t *testing.T) {
	n := newNode(t)
	result, err := n.syncer().SyncPod(t.Context(), podworkers.Sync, web(), nil, viewOf(runtime.Running))
	if err != nil || !same(result, podworkers.SyncResult{}) {
		t.Errorf("%+v, %v", result, err)
	}
	n.want("Syncing", "SetPodStatus", "Observed", "Allocate", "AddPod",
		"Hold", "SyncPod", "Release", "SetPodStatus", "Observed")
}

// TestFailedCallEndsSyncPod: each call that fails ends the step there, with its error.
func TestFailedCallEndsSyncPod(t *testing.T) {
	for _, tc := range []struct {
		call  string
		setup func(*node)
		last  string // call
	}{
		{call: "Allocate", last: "Allocate", setup: func(n *node) { n.unrecorded = true }},
		{call: "ReadNow", last: "Changed", setup: func(n *node) { n.results = []pods.Result{{Acted: true}} }},
		{call: "SyncPod", last: "Observed"},
		{call: "KillPod", last: "KillPod", setup: func(n *node) { n.message = "blocked" }},
		{call: "Get", last: "Get", setup: func(n *node) { n.message = "blocked" }},
	} {
		t.Run(tc.call, func(t *testing.T) {
			n := newNode(t)
			n.fail[tc.call] = true
			if tc.setup != nil {
				tc.setup(n)
			}
			s := n.syncer(func(o *Options) {
				if n.message == "blocked" {
					o.Admission.Handlers = []admission.Handler{refuseAll{}}
				}
			})
			result, err := s.SyncPod(t.Context(), podworkers.Sync, web(), nil, viewOf(runtime.Running))
			if !errors.Is(err, errFake) || !same(result, podworkers.SyncResult{}) {
				t.Errorf("%+v, %v", result, err)
			}
			if last := n.calls[len(n.calls)-1]; last != tc.last {
				t.Errorf("ended with %s: %q", last, n.calls)
			}
		})
	}
}

// TestWorkIsReportedThoughItsStatusCannotBeStored: the result says that something was done even if the status after
// it cannot be stored.
func TestWorkIsReportedThoughItsStatusCannotBeStored(t *testing.T) {
	n := newNode(t)
	n.results, n.view = []pods.Result{{Acted: true}}, viewOf(runtime.Running)
	s := n.syncer(func(o *Options) { o.Hooks.Changed = nil })
	s.o.Hooks.Changed = func(uid types.UID) { n.fail["SetPodStatus"] = true }
	result, err := s.SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing())
	if !errors.Is(err, errFake) || !result.Acted {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestDroppedStatusKeepsNoPodFromItsWork: IN5: a pod whose statuses are all dropped is set up
// and offers its status again after publishRetry; a failed call keeps its own back-off.
func TestDroppedStatusKeepsNoPodFromItsWork(t *testing.T) {
	n := newNode(t)
	n.fail["SetPodStatus"], n.changed = true, true
	n.results, n.view = []pods.Result{{Acted: true}, {Err: errors.New("no image")}}, viewOf(runtime.Running)
	s := n.syncer()
	result, err := s.SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing())
	var retry interface{ RetryAt() time.Time }
	if !result.Acted || !errors.As(err, &retry) || !retry.RetryAt().Equal(n.clock.Now().Add(publishRetry)) {
		t.Errorf("%+v, %v", result, err)
	}
	if !slices.Contains(n.calls, "SyncPod") {
		t.Errorf("%q", n.calls)
	}
	if _, err = s.SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing()); errors.As(err, &retry) || errors.Is(err, errFake) {
		t.Errorf("%v: the back-off is not the call's", err)
	}
	result, err = s.SyncPod(t.Context(), podworkers.Sync, web(), nil, viewOf(runtime.Exited))
	if err != nil || !result.Terminal {
		t.Errorf("the job has ended: %+v, %v", result, err)
	}
}

// TestEndedPodIsNotTouched: no runtime call is made for a pod whose phase is terminal.
func TestEndedPodIsNotTouched(t *testing.T) {
	n := newNode(t)
	result, err := n.syncer().SyncPod(t.Context(), podworkers.Sync, web(), nil, viewOf(runtime.Exited))
	if err != nil || !same(result, podworkers.SyncResult{Terminal: true}) {
		t.Errorf("%+v, %v", result, err)
	}
	n.want(append([]string{"Syncing"}, publishing...)...)
	if n.last().Phase != v1.PodFailed {
		t.Error(n.last().Phase)
	}
}

// TestEndSeenAfterWork: a step that leads to the pod's end reports it itself.
func TestEndSeenAfterWork(t *testing.T) {
	n := newNode(t)
	n.results, n.view = []pods.Result{{Acted: true}}, viewOf(runtime.Exited)
	result, err := n.syncer().SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing())
	if err != nil || !same(result, podworkers.SyncResult{Acted: true, Terminal: true}) {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestResetPodIsSyncedAgain: a sync that reset the whole pod is followed by another one
// in the same step, with at most four syncs in all.
func TestResetPodIsSyncedAgain(t *testing.T) {
	for _, tc := range []struct {
		results []pods.Result
		syncs   int
	}{
		{[]pods.Result{{Acted: true, Again: true}, {Acted: true}}, 2},
		{[]pods.Result{{Acted: true, Again: true}, {}}, 2},
		{[]pods.Result{{Acted: true, Again: true}}, 4},
	} {
		n := newNode(t)
		n.results, n.view = tc.results, viewOf(runtime.Created)
		if _, err := n.syncer().SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing()); err != nil {
			t.Error(err)
		}
		if len(n.shown) != tc.syncs || n.shown[1] != n.view {
			t.Errorf("%d syncs, want %d, the second with the new view", len(n.shown), tc.syncs)
		}
	}
}

// TestBackOffNamesItsEnd: the error of a sync delayed by a back-off says when to try again,
// and still wraps the original error.
func TestBackOffNamesItsEnd(t *testing.T) {
	n := newNode(t)
	at := n.clock.Now().Add(20 * time.Second)
	n.results = []pods.Result{{Err: errFake, RetryAt: at}}
	_, err := n.syncer().SyncPod(t.Context(), podworkers.Sync, web(), nil, viewOf(runtime.Running))
	var retry interface{ RetryAt() time.Time }
	if !errors.As(err, &retry) || !retry.RetryAt().Equal(at) || !errors.Is(err, errFake) {
		t.Error(err)
	}
	n.results = []pods.Result{{Err: errFake}}
	if _, err = n.syncer().SyncPod(t.Context(), podworkers.Sync, web(), nil, viewOf(runtime.Running)); errors.As(err, &retry) {
		t.Error("an end of a back-off that there is not")
	}
}

// TestPodWaitsForTheNetworkUnlessOnTheHosts: a pod waits for the network, with an event; a pod on the host network
// does not wait.
func TestPodWaitsForTheNetworkUnlessOnTheHosts(t *testing.T) {
	n := newNode(t)
	n.network = errors.New("no CNI")
	_, err := n.syncer().SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing())
	if !errors.Is(err, podworkers.ErrNetworkNotReady) || !errors.Is(err, n.network) {
		t.Error(err)
	}
	if want := []string{"Warning NetworkNotReady network is not ready: no CNI"}; !slices.Equal(n.events, want) {
		t.Error(n.events)
	}
	n.want(append([]string{"Syncing"}, publishing...)...)
	// runtime.md 25.2: what runs is kept up to date meanwhile.
	if _, err = n.syncer().SyncPod(t.Context(), podworkers.Sync, web(), nil, viewOf(runtime.Running)); !errors.Is(err, n.network) {
		t.Error(err)
	}
	n.want(append(append([]string{"Syncing"}, publishing...), "RefreshVolumes")...)
	host := web()
	host.Spec.HostNetwork = true
	if _, err := n.syncer().SyncPod(t.Context(), podworkers.Sync, host, nil, nothing()); err != nil {
		t.Error(err)
	}
}

// TestOfflineNightIsToldRarely: runtime.md 22. A pod that tries again and again in a night without a network reports it at counts
// 1, 2, 4, 8..., and every 30 min; another reason, another pod, and an outage after 10 min are reported at once.
func TestOfflineNightIsToldRarely(t *testing.T) {
	n := newNode(t)
	s := n.syncer()
	try := func(pod *v1.Pod, why string) {
		t.Helper()
		n.network = errors.New(why)
		if _, err := s.SyncPod(t.Context(), podworkers.Sync, pod, nil, nothing()); !errors.Is(err, podworkers.ErrNetworkNotReady) {
			t.Fatal(err)
		}
		n.clock.Step(time.Second)
	}
	told := func(what string, least, most int) {
		t.Helper()
		if got := len(n.events); got < least || got > most {
			t.Errorf("%s: %d events", what, got)
		}
		n.events = nil
	}
	for range 100 {
		try(web(), "no CNI")
	}
	told("100 s", 7, 7)
	for range 8 * 60 * 6 {
		try(web(), "no CNI")
		n.clock.Step(9 * time.Second)
	}
	told("8 h", 12, 24)
	try(web(), "no address is free")
	told("another reason", 1, 1)
	other := web()
	other.UID = "other"
	try(other, "no CNI")
	told("another pod", 1, 1)
	n.clock.Step(10 * time.Minute)
	try(web(), "no CNI")
	told("another outage", 1, 1)
}

// TestStaticPodsWantMirrors: MC4: only static pods that are not deleted.
func TestStaticPodsWantMirrors(t *testing.T) {
	static, deleted := web(), web()
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	deleted.Annotations, deleted.DeletionTimestamp = static.Annotations, &metav1.Time{Time: time.Unix(1, 0)}
	for _, tc := range []struct {
		pod  *v1.Pod
		want bool
	}{{web(), false}, {static, true}, {deleted, false}} {
		n := newNode(t)
		if _, err := n.syncer().SyncPod(t.Context(), podworkers.Sync, tc.pod, nil, nothing()); err != nil {
			t.Error(err)
		}
		if got := slices.Contains(n.calls, "WantMirror"); got != tc.want {
			t.Errorf("a mirror for %v %v: %t", tc.pod.Annotations, tc.pod.DeletionTimestamp, got)
		}
	}
}

// TestGrantedResourcesAreUsed: the pod is synced with what it was granted, after a new
// decision is published.
func TestGrantedResourcesAreUsed(t *testing.T) {
	n := newNode(t)
	n.changed = true
	n.granted = func(pod *v1.Pod) *v1.Pod {
		p := *pod
		p.Labels = map[string]string{"granted": "yes"}
		return &p
	}
	if _, err := n.syncer().SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing()); err != nil {
		t.Error(err)
	}
	n.want("Syncing", "SetPodStatus", "Observed", "Allocate", "SetPodStatus", "Observed", "AddPod",
		"Hold", "SyncPod", "Release", "SetPodStatus", "Observed")
	if c := n.last().Conditions; !slices.ContainsFunc(c, func(c v1.PodCondition) bool { return c.Type == v1.PodResizePending }) {
		t.Errorf("%+v", c)
	}
	n.fail["Allocate"], n.calls = true, nil
	if _, err := n.syncer().SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing()); !errors.Is(err, errFake) {
		t.Error(err)
	}
	if !slices.Contains(n.calls, "AddPod") || !slices.Contains(n.calls, "SyncPod") {
		t.Errorf("the pod is not looked after while its resize waits (spec/runtime.md 21.4): %q", n.calls)
	}
}

// TestLostEndsReachTheSync: an end that only the status shows keeps a container from running
// again (CK3).
func TestLostEndsReachTheSync(t *testing.T) {
	n := newNode(t)
	pod := web()
	pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "other"})
	n.published = []v1.PodStatus{{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{
		{Name: "c", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 3, ContainerID: "rt://c0"}}},
	}}}
	view := viewOf(runtime.Running)
	view.Containers[0].Name = "other"
	if _, err := n.syncer().SyncPod(t.Context(), podworkers.Sync, pod, nil, view); err != nil {
		t.Error(err)
	}
	if c := n.shown[0].Container("c"); c == nil || c.ExitCode != 3 {
		t.Errorf("%+v", c)
	}
}

// TestUnlistedObjectHoldsTheSync: nothing is made while the runtime does not list an object
// that it has made (spec/pleg.md D7).
func TestUnlistedObjectHoldsTheSync(t *testing.T) {
	n := newNode(t)
	calls := NewCalls(nil, CallOptions{Clock: n.clock})
	calls.unlisted.add("u", "c9")
	s := n.syncer(func(o *Options) { o.Calls = calls })
	_, err := s.SyncPod(t.Context(), podworkers.Sync, web(), nil, viewOf(runtime.Running))
	if err == nil || !strings.Contains(err.Error(), "c9") || slices.Contains(n.calls, "SyncPod") {
		t.Error(err, n.calls)
	}
	n.clock.Step(unlistedLimit)
	if _, err := s.SyncPod(t.Context(), podworkers.Sync, web(), nil, viewOf(runtime.Running)); err != nil {
		t.Error(err)
	}
}

// TestZeroOptionsSuffice: a syncer without any options takes a pod through all its steps.
func TestZeroOptionsSuffice(t *testing.T) {
	n := newNode(t)
	n.results, n.view = []pods.Result{{Acted: true}}, viewOf(runtime.Running)
	s := New(n, reader{n}, statuses{n}, Options{})
	ctx, pod := context.Background(), web()
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](3600)
	if _, err := s.SyncPod(ctx, podworkers.Create, pod, nil, nothing()); err != nil {
		t.Error(err)
	}
	n.view = viewOf(runtime.Exited)
	if err := s.SyncTerminatingPod(ctx, pod, viewOf(runtime.Running), nil, nil); err != nil {
		t.Error(err)
	}
	if err := s.SyncTerminatedPod(ctx, pod, n.view); err != nil {
		t.Error(err)
	}
	if err := s.SyncTerminatingRuntimePod(ctx, &runtime.Pod{UID: "u"}); err != nil {
		t.Error(err)
	}
	if n.last().Phase != v1.PodFailed || n.last().ContainerStatuses[0].State.Terminated.ExitCode != 3 {
		t.Errorf("%+v", n.last())
	}
}
