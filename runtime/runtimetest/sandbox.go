package runtimetest

import (
	"maps"
	"net/netip"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/cri"
)

func sandboxCases() []namedCase {
	return []namedCase{
		{"runs until stopped, exists until removed", sandboxLifeCycle},
		{"stop and remove are idempotent", sandboxIdempotent},
		{"an unknown sandbox is not found", sandboxUnknown},
		{"labels and annotations are kept verbatim", sandboxMetadataKept},
		{"metadata and attempt are kept", sandboxAttempt},
		{"list filters select", sandboxFilters},
		{"a name and attempt exist once", sandboxDuplicate},
		{"removal without a stop", sandboxRemoveReady},
		{"the pod network gives addresses", sandboxAddresses},
		{"the host network gives none", sandboxHostNetwork},
	}
}

// sandboxLifeCycle: READY after run, NOTREADY after stop, gone after remove.
func sandboxLifeCycle(e *env) {
	s := e.sandbox()
	listed := func(want runtimeapi.PodSandboxState) {
		e.Helper()
		list, err := e.Runtime.ListPodSandbox(e.ctx, nil)
		e.must(err)
		for _, l := range list {
			if l.GetId() == s.id && l.GetState() != want {
				e.Errorf("the unfiltered list says %v, want %v", l.GetState(), want)
			}
		}
	}
	if got := e.sandboxStatus(s.id); got.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY || got.GetId() != s.id {
		e.Errorf("after run: id %q state %v, want %q READY", got.GetId(), got.GetState(), s.id)
	}
	listed(runtimeapi.PodSandboxState_SANDBOX_READY)
	e.must(e.Runtime.StopPodSandbox(e.ctx, s.id))
	if got := e.sandboxStatus(s.id).GetState(); got != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		e.Errorf("after stop: state %v, want NOTREADY", got)
	}
	listed(runtimeapi.PodSandboxState_SANDBOX_NOTREADY)
	if got := e.listSandboxes(nil); !slices.Contains(got, s.id) {
		e.Error("a stopped sandbox is missing from the unfiltered list")
	}
	e.must(e.Runtime.RemovePodSandbox(e.ctx, s.id))
	if got := e.listSandboxes(nil); slices.Contains(got, s.id) {
		e.Error("a removed sandbox is listed")
	}
	_, err := e.Runtime.PodSandboxStatus(e.ctx, s.id, false)
	e.wantNotFound("status of a removed sandbox", err)
}

func sandboxIdempotent(e *env) {
	s := e.sandbox()
	for range 2 {
		e.must(e.Runtime.StopPodSandbox(e.ctx, s.id))
	}
	for range 2 {
		e.must(e.Runtime.RemovePodSandbox(e.ctx, s.id))
	}
}

// sandboxUnknown: a runtime may answer a stop of an unknown sandbox with
// success or with not found, nothing else (spec/runtime.md 16.5).
func sandboxUnknown(e *env) {
	const id = unknownID
	_, err := e.Runtime.PodSandboxStatus(e.ctx, id, false)
	e.wantNotFound("PodSandboxStatus", err)
	if err := e.Runtime.StopPodSandbox(e.ctx, id); err != nil && !cri.IsNotFound(err) {
		e.Errorf("StopPodSandbox: %v", err)
	}
	if err := e.Runtime.RemovePodSandbox(e.ctx, id); err != nil {
		e.Errorf("RemovePodSandbox: %v", err)
	}
	if got := e.listSandboxes(&runtimeapi.PodSandboxFilter{Id: id}); len(got) != 0 {
		e.Errorf("list of an unknown ID: %v", got)
	}
}

// awkwardAnnotations are values a runtime might mangle.
func awkwardAnnotations() map[string]string {
	return map[string]string{
		"example.com/json":      `{"a":["b",1],"c":"d\n"}`,
		"example.com/empty":     "",
		"example.com/multiline": "one\ntwo\n",
		"example.com/unicode":   "größe ☃",
		"example.com/spaces":    "  kept  ",
	}
}

func sandboxMetadataKept(e *env) {
	s := e.sandbox(func(c *runtimeapi.PodSandboxConfig) {
		c.Labels["example.com/team"] = "a-b_c.d"
		c.Labels["empty"] = ""
		c.Annotations = awkwardAnnotations()
	})
	status := e.sandboxStatus(s.id)
	e.wantLabels("labels in status", status.GetLabels(), s.config.GetLabels())
	e.wantMap("annotations in status", status.GetAnnotations(), s.config.GetAnnotations())
	list, err := e.Runtime.ListPodSandbox(e.ctx, &runtimeapi.PodSandboxFilter{Id: s.id})
	e.must(err)
	if len(list) != 1 {
		e.Fatalf("listed %d sandboxes by ID, want 1", len(list))
	}
	e.wantLabels("labels in list", list[0].GetLabels(), s.config.GetLabels())
	e.wantMap("annotations in list", list[0].GetAnnotations(), s.config.GetAnnotations())
	if got, want := list[0].GetCreatedAt(), status.GetCreatedAt(); got != want || got == 0 {
		e.Errorf("created at: list %d, status %d, want equal and not 0", got, want)
	}
}

// sandboxAttempt: two sandboxes of one pod, told apart by attempt; the later one
// is not older (spec/runtime.md 1.3).
func sandboxAttempt(e *env) {
	first := e.sandbox()
	e.must(e.Runtime.StopPodSandbox(e.ctx, first.id))
	second := e.sandbox()
	if first.id == second.id {
		e.Fatalf("two sandboxes with the ID %s", first.id)
	}
	for attempt, s := range []*sandbox{first, second} {
		got, want := e.sandboxStatus(s.id).GetMetadata(), s.config.GetMetadata()
		if got.GetAttempt() != uint32(attempt) || got.GetName() != want.GetName() ||
			got.GetNamespace() != want.GetNamespace() || got.GetUid() != want.GetUid() {
			e.Errorf("metadata %v, want %v", got, want)
		}
	}
	if a, b := e.sandboxStatus(first.id).GetCreatedAt(), e.sandboxStatus(second.id).GetCreatedAt(); b < a {
		e.Errorf("attempt 1 was created at %d, before attempt 0 at %d", b, a)
	}
}

func sandboxFilters(e *env) {
	stopped := e.sandbox(func(c *runtimeapi.PodSandboxConfig) { c.Labels["colour"] = "red" })
	e.must(e.Runtime.StopPodSandbox(e.ctx, stopped.id))
	ready := e.sandbox(func(c *runtimeapi.PodSandboxConfig) { c.Labels["colour"] = "blue" })

	state := func(s runtimeapi.PodSandboxState) *runtimeapi.PodSandboxStateValue {
		return &runtimeapi.PodSandboxStateValue{State: s}
	}
	isReady := state(runtimeapi.PodSandboxState_SANDBOX_READY)
	notReady := state(runtimeapi.PodSandboxState_SANDBOX_NOTREADY)
	mine := e.podLabels()
	with := func(key, value string) map[string]string {
		m := maps.Clone(mine)
		m[key] = value
		return m
	}
	for _, c := range []struct {
		name   string
		filter *runtimeapi.PodSandboxFilter
		want   []*sandbox
	}{
		{"labels", &runtimeapi.PodSandboxFilter{LabelSelector: mine}, []*sandbox{stopped, ready}},
		{"more labels", &runtimeapi.PodSandboxFilter{LabelSelector: with("colour", "red")}, []*sandbox{stopped}},
		{"label value differs", &runtimeapi.PodSandboxFilter{LabelSelector: with("colour", "green")}, nil},
		{"label missing", &runtimeapi.PodSandboxFilter{LabelSelector: with("shape", "round")}, nil},
		{"ready", &runtimeapi.PodSandboxFilter{LabelSelector: mine, State: isReady}, []*sandbox{ready}},
		{"not ready", &runtimeapi.PodSandboxFilter{LabelSelector: mine, State: notReady}, []*sandbox{stopped}},
		{"id", &runtimeapi.PodSandboxFilter{Id: ready.id}, []*sandbox{ready}},
		{"id and state", &runtimeapi.PodSandboxFilter{Id: ready.id, State: notReady}, nil},
		{"id and labels", &runtimeapi.PodSandboxFilter{Id: ready.id, LabelSelector: with("colour", "red")}, nil},
	} {
		var want []string
		for _, s := range c.want {
			want = append(want, s.id)
		}
		e.wantIDs(c.name, e.listSandboxes(c.filter), want)
	}
	all := e.listSandboxes(nil)
	if !slices.Contains(all, ready.id) || !slices.Contains(all, stopped.id) {
		e.Error("the unfiltered list misses a sandbox")
	}
}

// sandboxDuplicate: name, namespace, UID and attempt are reserved while the sandbox
// exists, even if it is stopped, and free again once removed. A runtime refuses the
// second call or answers it with the existing sandbox.
func sandboxDuplicate(e *env) {
	s := e.sandbox()
	again := func() (string, error) { return e.Runtime.RunPodSandbox(e.ctx, s.config, e.RuntimeHandler) }
	for _, state := range []string{"ready", "stopped"} {
		if id, err := again(); err == nil && id != s.id {
			e.removeLater(id)
			e.Fatalf("a second sandbox of the same name and attempt was made while the first was %s", state)
		}
		e.must(e.Runtime.StopPodSandbox(e.ctx, s.id))
	}
	e.wantIDs("after repeated calls", e.listSandboxes(&runtimeapi.PodSandboxFilter{LabelSelector: e.podLabels()}), []string{s.id})
	e.must(e.Runtime.RemovePodSandbox(e.ctx, s.id))
	id, err := again()
	if err != nil {
		e.Fatalf("the name is still taken after removal: %v", err)
	}
	e.removeLater(id)
}

func sandboxRemoveReady(e *env) {
	s := e.sandbox()
	e.must(e.Runtime.RemovePodSandbox(e.ctx, s.id))
	_, err := e.Runtime.PodSandboxStatus(e.ctx, s.id, false)
	e.wantNotFound("status of a removed sandbox", err)
}

func sandboxAddresses(e *env) {
	if e.Limits.NoPodIP {
		e.Skip("the runtime gives sandboxes no address")
	}
	a, b := e.sandbox(), e.sandbox()
	addresses := map[string]string{}
	for _, s := range []*sandbox{a, b} {
		ip := e.sandboxStatus(s.id).GetNetwork().GetIp()
		if _, err := netip.ParseAddr(ip); err != nil {
			e.Errorf("address of sandbox %s: %v", s.id, err)
		}
		if other := addresses[ip]; other != "" {
			e.Errorf("sandboxes %s and %s share the address %s", other, s.id, ip)
		}
		addresses[ip] = s.id
	}
}

// sandboxHostNetwork: the network mode is reported, because it is a reason for a
// new sandbox (spec/runtime.md 5 row 4), and there is no address (6.10).
func sandboxHostNetwork(e *env) {
	if e.Limits.NoHostNetwork {
		e.Skip("the runtime has no host network")
	}
	s := e.sandbox(func(c *runtimeapi.PodSandboxConfig) {
		c.Hostname = ""
		c.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
	})
	status := e.sandboxStatus(s.id)
	if got := status.GetLinux().GetNamespaces().GetOptions().GetNetwork(); got != runtimeapi.NamespaceMode_NODE {
		e.Errorf("network mode %v, want NODE", got)
	}
	if ip := status.GetNetwork().GetIp(); ip != "" {
		e.Errorf("address %s, want none", ip)
	}
}

// wantMap compares label or annotation maps; nil equals empty.
func (e *env) wantMap(what string, got, want map[string]string) {
	e.Helper()
	if !maps.Equal(got, want) {
		e.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// wantLabels checks that all labels are there. The runtime may add some of its own.
func (e *env) wantLabels(what string, got, want map[string]string) {
	e.Helper()
	for name, value := range want {
		if v, ok := got[name]; !ok || v != value {
			e.Errorf("%s: got %q, want %q among them", what, got, want)
			return
		}
	}
}

// wantIDs compares sets of IDs.
func (e *env) wantIDs(what string, got, want []string) {
	e.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		e.Errorf("%s: got %v, want %v", what, got, want)
	}
}
