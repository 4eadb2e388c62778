package fake_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// A call says what it was about even if only an ID was given.
func TestCallNamesItsObjectByID(t *testing.T) {
	r := newRig(t, fake.Options{})
	s := r.sandbox()
	id := r.run(s, "app", 0)
	r.clock.Step(time.Second)
	r.must(r.StopContainer(r.ctx, id, 7))
	r.must(r.StopPodSandbox(r.ctx, s))
	_, err := r.ContainerStatus(r.ctx, "nobody", false)
	r.wantClass("status", err, runtime.ErrNotFound)

	var methods []fake.Method
	for i, c := range r.Calls(fake.Match{PodUID: uid}) {
		methods = append(methods, c.Method)
		if c.Seq != i+1 || !c.Done || c.Pod != "pod" || c.SandboxID != s || c.Err != nil {
			t.Errorf("call %+v", c)
		}
	}
	want := []fake.Method{fake.RunPodSandbox, fake.CreateContainer, fake.StartContainer, fake.StopContainer, fake.StopPodSandbox}
	if len(methods) != len(want) {
		t.Fatalf("methods %v, want %v", methods, want)
	}
	for i := range want {
		if methods[i] != want[i] {
			t.Errorf("methods %v, want %v", methods, want)
		}
	}
	stop := r.Calls(fake.Match{Method: fake.StopContainer, Container: "app"})[0]
	if got := stop.Request.(*runtimeapi.StopContainerRequest).GetTimeout(); got != 7 || stop.ContainerID != id {
		t.Errorf("stop request %v of %q", got, stop.ContainerID)
	}
	if !stop.Start.Equal(start.Add(time.Second)) {
		t.Errorf("stop began at %v", stop.Start)
	}
	failed := r.Calls(fake.Match{Func: func(c fake.Call) bool { return c.Err != nil }})
	if len(failed) != 1 || failed[0].Method != fake.ContainerStatus || failed[0].PodUID != "" {
		t.Errorf("failed calls %+v", failed)
	}
	if got := r.CallCount(""); got != 6 {
		t.Errorf("%d calls, want 6", got)
	}
	if got := r.CallCount(fake.StopContainer); got != 1 {
		t.Errorf("%d stops, want 1", got)
	}
}

func TestMaxCalls(t *testing.T) {
	r := newRig(t, fake.Options{MaxCalls: 3})
	for range 100 {
		_, err := r.Version(r.ctx, "")
		r.must(err)
	}
	calls := r.Calls(fake.Match{})
	if len(calls) != 3 || calls[0].Seq != 98 || r.CallCount("") != 100 {
		t.Errorf("kept %d calls from %d on, counted %d", len(calls), calls[0].Seq, r.CallCount(""))
	}
}

func TestInFlight(t *testing.T) {
	r := newRig(t, fake.Options{})
	r.Inject(fake.Fault{Match: fake.Match{Method: fake.Version}, Effect: fake.Effect{Hang: true}})
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan error)
	for range 3 {
		go func() {
			_, err := r.Version(ctx, "")
			done <- err
		}()
	}
	for now := 0; now < 3; {
		now, _ = r.InFlight()
	}
	open := r.Calls(fake.Match{Method: fake.Version})
	if len(open) != 3 || open[0].Done || !open[0].End.IsZero() {
		t.Errorf("calls in flight: %+v", open)
	}
	cancel()
	for range 3 {
		<-done
	}
	if now, most := r.InFlight(); now != 0 || most != 3 {
		t.Errorf("in flight %d, at most %d; want 0, 3", now, most)
	}
}

// Addresses come in order, come back when a sandbox stops, and run out.
func TestAddressesComeInOrderAndComeBack(t *testing.T) {
	r := newRig(t, fake.Options{PodIPs: netip.MustParsePrefix("10.0.0.0/30")})
	ip := func(id string) string {
		response, err := r.PodSandboxStatus(r.ctx, id, false)
		r.must(err)
		return response.GetStatus().GetNetwork().GetIp()
	}
	run := func(attempt uint32) (string, error) { return r.RunPodSandbox(r.ctx, sandboxConfig(attempt), "") }
	var ids []string
	for attempt, want := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		id, err := run(uint32(attempt))
		r.must(err)
		if got := ip(id); got != want {
			t.Errorf("address %s, want %s", got, want)
		}
		ids = append(ids, id)
	}
	_, err := run(9)
	r.wantClass("fourth sandbox", err, runtime.ErrExhausted)
	r.must(r.StopPodSandbox(r.ctx, ids[1]))
	if got := ip(ids[1]); got != "" {
		t.Errorf("a stopped sandbox has the address %s", got)
	}
	id, err := run(9)
	r.must(err)
	if got := ip(id); got != "10.0.0.2" {
		t.Errorf("address %s, want the one that came back", got)
	}
	r.must(r.SetIPs(id))
	if got := ip(id); got != "" {
		t.Errorf("address %s after it was lost", got)
	}
}

func TestStatusShowsTheConditionsSet(t *testing.T) {
	r := newRig(t, fake.Options{})
	r.SetConditions(true, false)
	response, err := r.Status(r.ctx, false)
	r.must(err)
	got := map[string]bool{}
	for _, c := range response.GetStatus().GetConditions() {
		got[c.GetType()] = c.GetStatus()
	}
	if !got["RuntimeReady"] || got["NetworkReady"] || len(got) != 2 {
		t.Errorf("conditions %v", got)
	}
}
