package runtime_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/runtime"
)

func TestParseContainerID(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want runtime.ContainerID
		ok   bool
	}{
		{"containerd://4f2a", runtime.ContainerID{Runtime: "containerd", ID: "4f2a"}, true},
		{"cri-o://a://b", runtime.ContainerID{Runtime: "cri-o", ID: "a://b"}, true},
		{"://4f2a", runtime.ContainerID{ID: "4f2a"}, true},
		{"", runtime.ContainerID{}, true},
		{"containerd://", runtime.ContainerID{}, false},
		{"4f2a", runtime.ContainerID{}, false},
		{"containerd:/4f2a", runtime.ContainerID{}, false},
	} {
		got, err := runtime.ParseContainerID(tc.in)
		if got != tc.want || (err == nil) != tc.ok {
			t.Errorf("%q: got %+v, %v; want %+v, ok %v", tc.in, got, err, tc.want, tc.ok)
		}
	}
}

// A container ID survives a round trip through a v1.PodStatus, and any text that
// parses is printed unchanged.
func TestContainerIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := runtime.ContainerID{
			Runtime: rapid.StringMatching(`[a-z][a-z0-9-]*`).Draw(t, "runtime"),
			ID:      rapid.StringMatching(`.+`).Draw(t, "id"),
		}
		got, err := runtime.ParseContainerID(id.String())
		if err != nil || got != id {
			t.Fatalf("%q: got %+v, %v", id.String(), got, err)
		}
		text := rapid.String().Draw(t, "text")
		if parsed, err := runtime.ParseContainerID(text); err == nil && parsed.String() != text {
			t.Fatalf("%q became %q", text, parsed.String())
		}
	})
}

func TestContainerIDIsZero(t *testing.T) {
	if !(runtime.ContainerID{}).IsZero() || (runtime.ContainerID{Runtime: "r"}).IsZero() {
		t.Error("IsZero is wrong")
	}
	if s := (runtime.ContainerID{}).String(); s != "" {
		t.Errorf("the zero ID is shown as %q", s)
	}
}

func TestStateString(t *testing.T) {
	for state, want := range map[runtime.State]string{
		runtime.Unknown: "unknown", runtime.Created: "created", runtime.Running: "running",
		runtime.Exited: "exited", runtime.State(77): "unknown",
	} {
		if got := state.String(); got != want {
			t.Errorf("State(%d) = %q, want %q", state, got, want)
		}
	}
}

// A pod runs as long as anything of it does: a ready sandbox without containers,
// or a container whose sandbox is gone.
func TestPodRunning(t *testing.T) {
	sandbox := func(s runtime.State) []*runtime.Sandbox { return []*runtime.Sandbox{{State: s}} }
	container := func(s runtime.State) []*runtime.Container { return []*runtime.Container{{State: s}} }
	for _, tc := range []struct {
		name string
		pod  runtime.Pod
		want bool
	}{
		{"ready sandbox", runtime.Pod{Sandboxes: sandbox(runtime.Running), Containers: container(runtime.Exited)}, true},
		{"container in a dead sandbox", runtime.Pod{Sandboxes: sandbox(runtime.Exited), Containers: container(runtime.Running)}, true},
		{"dead", runtime.Pod{Sandboxes: sandbox(runtime.Exited), Containers: container(runtime.Exited)}, false},
		{"unknown", runtime.Pod{Sandboxes: sandbox(runtime.Unknown), Containers: container(runtime.Unknown)}, false},
		{"created", runtime.Pod{Containers: container(runtime.Created)}, false},
	} {
		if got := tc.pod.Running(); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// "The status of container X" is the newest with that name (spec/runtime.md
// 1.3); no status at all is a valid answer to every question.
func TestPodStatusLookups(t *testing.T) {
	s := &runtime.PodStatus{Containers: []*runtime.ContainerStatus{
		{Name: "b", State: runtime.Exited},
		{Name: "a", State: runtime.Exited, ExitCode: 2},
		{Name: "a", State: runtime.Exited, ExitCode: 1},
	}}
	if got := s.Container("a"); got == nil || got.ExitCode != 2 {
		t.Errorf("Container(a) = %+v, want the newest", got)
	}
	if s.Container("c") != nil || s.Running() || s.ContainersRunning() {
		t.Error("found what is not there")
	}
	s.Containers[2].State = runtime.Running
	if !s.Running() || !s.ContainersRunning() {
		t.Error("an older container that runs does not count")
	}
	ready := &runtime.PodStatus{Sandboxes: []*runtime.SandboxStatus{{State: runtime.Exited}, {State: runtime.Running}}}
	if !ready.Running() || ready.ContainersRunning() {
		t.Error("a ready sandbox makes the pod run, and is no container")
	}
	var none *runtime.PodStatus
	if none.Container("a") != nil || none.Running() || none.ContainersRunning() {
		t.Error("a nil status shows something")
	}
}

// Stamps drawn later are larger, in all goroutines.
func TestLaterStampsAreLarger(t *testing.T) {
	var (
		sequence runtime.Sequence
		mu       sync.Mutex
		seen     = map[runtime.Stamp]bool{}
		wg       sync.WaitGroup
	)
	for range 4 {
		wg.Go(func() {
			last := runtime.Stamp(0)
			for range 100 {
				s := sequence.Next()
				mu.Lock()
				if s <= last || seen[s] {
					t.Errorf("stamp %d after %d, seen before: %v", s, last, seen[s])
				}
				seen[s] = true
				mu.Unlock()
				last = s
			}
		})
	}
	wg.Wait()
}

// TestListedShowsWhatAListShows: of a pod that was read, nothing that a list says of it is lost.
func TestListedShowsWhatAListShows(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	status := &runtime.PodStatus{
		UID: "u", Name: "n", Namespace: "ns", Stamp: 7,
		Sandboxes: []*runtime.SandboxStatus{{ID: "s", State: runtime.Running, Attempt: 2, CreatedAt: at, IP: "10.0.0.1"}},
		Containers: []*runtime.ContainerStatus{{
			ID: runtime.ContainerID{ID: "c"}, Name: "app", SandboxID: "s", State: runtime.Exited, RestartCount: 3, CreatedAt: at, Annotations: map[string]string{"a": "b"}, ExitCode: 1,
		}},
	}
	want := &runtime.Pod{
		UID: "u", Name: "n", Namespace: "ns", Stamp: 7,
		Sandboxes: []*runtime.Sandbox{{ID: "s", State: runtime.Running, Attempt: 2, CreatedAt: at}},
		Containers: []*runtime.Container{{
			ID: runtime.ContainerID{ID: "c"}, Name: "app", SandboxID: "s", State: runtime.Exited, Attempt: 3, CreatedAt: at, Annotations: map[string]string{"a": "b"},
		}},
	}
	if diff := cmp.Diff(want, status.Listed()); diff != "" {
		t.Error(diff)
	}
}
