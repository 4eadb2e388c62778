package cri_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// store is a runtime that shows what a test puts in.
type store struct {
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container

	sandboxStatus   map[string]*runtimeapi.PodSandboxStatus
	containerStatus map[string]*runtimeapi.ContainerStatus

	// errs is what the named call fails with.
	errs     map[string]error
	versions int
	// during is called within every list call.
	during func()
}

func (s *store) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	s.versions++
	return &runtimeapi.VersionResponse{RuntimeName: "test"}, s.errs["Version"]
}

func (s *store) ListPodSandbox(_ context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	if s.during != nil {
		s.during()
	}
	var out []*runtimeapi.PodSandbox
	for _, x := range s.sandboxes {
		if selected(filter.GetLabelSelector(), x.GetLabels()) {
			out = append(out, x)
		}
	}
	return out, s.errs["ListPodSandbox"]
}

func (s *store) ListContainers(_ context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	var out []*runtimeapi.Container
	for _, x := range s.containers {
		if selected(filter.GetLabelSelector(), x.GetLabels()) {
			out = append(out, x)
		}
	}
	return out, s.errs["ListContainers"]
}

func (s *store) PodSandboxStatus(_ context.Context, id string, _ bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	if err := s.errs["PodSandboxStatus"]; err != nil {
		return nil, err
	}
	status, ok := s.sandboxStatus[id]
	if !ok {
		return nil, fmt.Errorf("sandbox %s: %w", id, runtime.ErrNotFound)
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: status}, nil
}

func (s *store) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	if err := s.errs["ContainerStatus"]; err != nil {
		return nil, err
	}
	status, ok := s.containerStatus[id]
	if !ok {
		return nil, fmt.Errorf("container %s: %w", id, runtime.ErrNotFound)
	}
	return &runtimeapi.ContainerStatusResponse{Status: status}, nil
}

func selected(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// podLabels are the labels of pod "name-<uid>" in namespace "ns".
func podLabels(uid string) map[string]string {
	return map[string]string{
		runtime.LabelPodUID: uid, runtime.LabelPodName: "name-" + uid, runtime.LabelPodNamespace: "ns",
	}
}

func sandbox(uid, id string, attempt uint32, createdAt int64, state runtimeapi.PodSandboxState) *runtimeapi.PodSandbox {
	return &runtimeapi.PodSandbox{
		Id: id, Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid, Attempt: attempt}, State: state,
		CreatedAt: createdAt, Labels: podLabels(uid),
	}
}

func container(uid, id, name string, createdAt int64) *runtimeapi.Container {
	return &runtimeapi.Container{
		Id: id, Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: "i"},
		PodSandboxId: "s", State: runtimeapi.ContainerState_CONTAINER_RUNNING, CreatedAt: createdAt, Labels: podLabels(uid),
	}
}

const (
	ready    = runtimeapi.PodSandboxState_SANDBOX_READY
	notReady = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
)

// show is a short form of pods: "uid [sandboxes] [containers]".
func show(pods []*runtime.Pod) []string {
	var out []string
	for _, p := range pods {
		var sandboxes, containers []string
		for _, s := range p.Sandboxes {
			sandboxes = append(sandboxes, s.ID)
		}
		for _, c := range p.Containers {
			containers = append(containers, c.ID.ID)
		}
		out = append(out, fmt.Sprintf("%s %v %v", p.UID, sandboxes, containers))
	}
	return out
}

func listPods(t *testing.T, s *store, options cri.ViewOptions) []*runtime.Pod {
	t.Helper()
	pods, err := cri.NewView(s, options).ListPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

// spec/runtime.md 1.1: by UID, from either list, dead ones too.
func TestPodsAreGroupedByUID(t *testing.T) {
	s := &store{
		sandboxes: []*runtimeapi.PodSandbox{sandbox("b", "s1", 0, 1, notReady), sandbox("a", "s2", 0, 1, ready)},
		containers: []*runtimeapi.Container{
			container("a", "c1", "x", 1), container("c", "c2", "x", 1), container("a", "c3", "y", 2),
		},
	}
	want := []string{"a [s2] [c3 c1]", "b [s1] []", "c [] [c2]"}
	got := listPods(t, s, cri.ViewOptions{})
	if diff := cmp.Diff(want, show(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got[0].Name != "name-a" || got[0].Namespace != "ns" || got[0].Containers[0].ID.String() != "test://c3" {
		t.Errorf("pod %+v, container %+v", got[0], got[0].Containers[0])
	}
}

// spec/runtime.md 1.1: entries without metadata, ID or image are skipped and do
// not fail the list, nil entries included; one listed twice counts once.
func TestIncompleteEntries(t *testing.T) {
	noMetadata, noID := sandbox("a", "s1", 0, 1, ready), sandbox("a", "", 0, 1, ready)
	noMetadata.Metadata = nil
	c1, c2, c3 := container("a", "c1", "x", 1), container("a", "", "x", 1), container("a", "c3", "x", 1)
	c1.Metadata, c3.Image = nil, nil
	twice := container("a", "c4", "x", 1)
	s := &store{
		sandboxes:  []*runtimeapi.PodSandbox{nil, noMetadata, noID, sandbox("a", "s4", 0, 1, ready), sandbox("a", "s4", 0, 1, ready)},
		containers: []*runtimeapi.Container{nil, c1, c2, c3, twice, twice},
	}
	if diff := cmp.Diff([]string{"a [s4] [c4]"}, show(listPods(t, s, cri.ViewOptions{}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// spec/runtime.md 1.9 and its edge case 27: an object without a pod label is
// foreign; with an owner, so is one that names no owner or another one.
func TestForeignObjects(t *testing.T) {
	s := &store{}
	add := func(id string, change func(labels map[string]string)) {
		x := sandbox(id, "s-"+id, 0, 1, ready)
		c := container(id, "c-"+id, "x", 1)
		change(x.Labels)
		change(c.Labels)
		s.sandboxes, s.containers = append(s.sandboxes, x), append(s.containers, c)
	}
	add("mine", func(l map[string]string) { l[runtime.LabelOwner] = "me" })
	add("other", func(l map[string]string) { l[runtime.LabelOwner] = "you" })
	add("plain", func(map[string]string) {})
	add("noname", func(l map[string]string) { delete(l, runtime.LabelPodName) })
	add("nouid", func(l map[string]string) { delete(l, runtime.LabelPodUID) })
	add("nons", func(l map[string]string) { delete(l, runtime.LabelPodNamespace) })
	add("bare", func(l map[string]string) { clear(l) })

	for owner, want := range map[string][]string{
		"":   {"mine [s-mine] [c-mine]", "other [s-other] [c-other]", "plain [s-plain] [c-plain]"},
		"me": {"mine [s-mine] [c-mine]"},
	} {
		if diff := cmp.Diff(want, show(listPods(t, s, cri.ViewOptions{OwnerID: owner}))); diff != "" {
			t.Errorf("owner %q (-want +got):\n%s", owner, diff)
		}
	}
	// Nor can a foreign pod be asked for by its UID.
	pod, err := cri.NewView(s, cri.ViewOptions{OwnerID: "me"}).ListPod(t.Context(), "other")
	if pod != nil || err != nil {
		t.Errorf("got %+v, %v", pod, err)
	}
}

// spec/runtime.md 1.3: sandboxes by attempt, then creation, then ID; containers
// by creation.
func TestLatestSandboxComesFirst(t *testing.T) {
	s := &store{
		sandboxes: []*runtimeapi.PodSandbox{
			sandbox("a", "old-but-higher", 2, 10, notReady), sandbox("a", "young", 1, 30, ready),
			sandbox("a", "b", 1, 20, ready), sandbox("a", "a", 1, 20, ready), sandbox("a", "first", 0, 99, ready),
		},
		containers: []*runtimeapi.Container{
			container("a", "b", "x", 20), container("a", "new", "x", 30), container("a", "a", "y", 20), container("a", "old", "x", 10),
		},
	}
	want := []string{"a [old-but-higher young a b first] [new a b old]"}
	rapid.Check(t, func(rt *rapid.T) {
		s := &store{sandboxes: rapid.Permutation(s.sandboxes).Draw(rt, "sandboxes"), containers: rapid.Permutation(s.containers).Draw(rt, "containers")}
		if diff := cmp.Diff(want, show(listPods(t, s, cri.ViewOptions{}))); diff != "" {
			rt.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// spec/runtime.md 1.3: a clock that was set back does not make an earlier run of a container look newer than a
// later one, neither in a list nor in a status.
func TestLatestRunComesFirstWhateverTheClockSaid(t *testing.T) {
	s := &store{sandboxes: []*runtimeapi.PodSandbox{sandbox("a", "s", 0, 1, ready)}, containerStatus: map[string]*runtimeapi.ContainerStatus{}}
	s.sandboxStatus = map[string]*runtimeapi.PodSandboxStatus{"s": sandboxStatus("a", "s", 0, ready)}
	add := func(id, name string, attempt uint32, createdAt int64) {
		c := container("a", id, name, createdAt)
		c.Metadata.Attempt = attempt
		s.containers = append(s.containers, c)
		s.containerStatus[id] = &runtimeapi.ContainerStatus{
			Id: id, Metadata: c.Metadata, CreatedAt: createdAt, Image: c.Image,
			Annotations: map[string]string{runtime.AnnotationRestartCount: fmt.Sprint(attempt)},
		}
	}
	add("x0", "x", 0, 60)
	add("x1", "x", 1, 70)
	add("y0", "y", 0, 65)
	add("x2", "x", 2, 10) // the clock was set back by an hour
	add("x3", "x", 3, 20)
	add("y1-b", "y", 1, 15) // two of one number: as always
	add("y1-a", "y", 1, 15)
	want := []string{"a [s] [x3 y1-a x2 x1 y1-b y0 x0]"}
	rapid.Check(t, func(rt *rapid.T) {
		s.containers = rapid.Permutation(s.containers).Draw(rt, "containers")
		if diff := cmp.Diff(want, show(listPods(t, s, cri.ViewOptions{}))); diff != "" {
			rt.Errorf("list (-want +got):\n%s", diff)
		}
		status, err := cri.NewView(s, cri.ViewOptions{}).Read(t.Context(), "a")
		if err != nil {
			rt.Fatal(err)
		}
		var got []string
		for _, c := range status.Containers {
			got = append(got, c.ID.ID)
		}
		if text := fmt.Sprint("a [s] ", got); text != want[0] {
			rt.Errorf("status: %s, want %s", text, want[0])
		}
	})
}

func sandboxStatus(uid, id string, attempt uint32, state runtimeapi.PodSandboxState, ips ...string) *runtimeapi.PodSandboxStatus {
	status := &runtimeapi.PodSandboxStatus{
		Id: id, Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid, Attempt: attempt}, State: state, Labels: podLabels(uid),
		Network: &runtimeapi.PodSandboxNetworkStatus{},
	}
	for n, ip := range ips {
		if n == 0 {
			status.Network.Ip = ip
			continue
		}
		status.Network.AdditionalIps = append(status.Network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
	}
	return status
}

func onHost(s *runtimeapi.PodSandboxStatus) *runtimeapi.PodSandboxStatus {
	s.Linux = &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}}}
	return s
}

// spec/runtime.md 1.7: the latest sandbox only, if ready; one bad address spoils
// the list.
func TestPodIPs(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   []*runtimeapi.PodSandboxStatus
		want []string
	}{
		{"two families", []*runtimeapi.PodSandboxStatus{sandboxStatus("a", "s", 0, ready, "10.0.0.1", "fd00::1")}, []string{"10.0.0.1", "fd00::1"}},
		{"latest not ready", []*runtimeapi.PodSandboxStatus{
			sandboxStatus("a", "s1", 1, notReady, "10.0.0.2"), sandboxStatus("a", "s0", 0, ready, "10.0.0.1"),
		}, nil},
		{"latest ready", []*runtimeapi.PodSandboxStatus{
			sandboxStatus("a", "s0", 0, ready, "10.0.0.1"), sandboxStatus("a", "s1", 1, ready, "10.0.0.2"),
		}, []string{"10.0.0.2"}},
		{"unparsable primary", []*runtimeapi.PodSandboxStatus{sandboxStatus("a", "s", 0, ready, "10.0.0.256", "fd00::1")}, nil},
		{"unparsable additional", []*runtimeapi.PodSandboxStatus{sandboxStatus("a", "s", 0, ready, "10.0.0.1", "x")}, nil},
		{"host network", []*runtimeapi.PodSandboxStatus{sandboxStatus("a", "s", 0, ready)}, nil},
		{"host network, and the runtime has the node's address of that time", []*runtimeapi.PodSandboxStatus{onHost(sandboxStatus("a", "s", 0, ready, "192.0.2.1"))}, nil},
		{"no sandbox", nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &store{sandboxStatus: map[string]*runtimeapi.PodSandboxStatus{}}
			pod := &runtime.Pod{UID: "a"}
			for _, status := range tc.in {
				s.sandboxStatus[status.Id] = status
				pod.Sandboxes = append(pod.Sandboxes, &runtime.Sandbox{ID: status.Id})
			}
			got, err := cri.NewView(s, cri.ViewOptions{}).PodStatus(t.Context(), pod)
			if err != nil || !slices.Equal(got.IPs, tc.want) {
				t.Errorf("got %v, %v; want %v", got.IPs, err, tc.want)
			}
		})
	}
}

// onePod is a runtime with one pod of one sandbox and two containers.
func onePod() *store {
	s := &store{
		sandboxes:       []*runtimeapi.PodSandbox{sandbox("a", "s", 0, 1, ready)},
		containers:      []*runtimeapi.Container{container("a", "c1", "x", 1), container("a", "c2", "y", 2)},
		sandboxStatus:   map[string]*runtimeapi.PodSandboxStatus{"s": sandboxStatus("a", "s", 0, ready, "10.0.0.1")},
		containerStatus: map[string]*runtimeapi.ContainerStatus{},
		errs:            map[string]error{},
	}
	for _, c := range s.containers {
		s.containerStatus[c.Id] = &runtimeapi.ContainerStatus{
			Id: c.Id, Metadata: c.Metadata, State: c.State, CreatedAt: c.CreatedAt, Image: c.Image,
		}
	}
	return s
}

func TestReadShowsOnePod(t *testing.T) {
	now := time.Unix(1000, 0)
	got, err := cri.NewView(onePod(), cri.ViewOptions{Clock: testingclock.NewFakePassiveClock(now)}).Read(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	status := func(id, name string, createdAt int64) *runtime.ContainerStatus {
		return &runtime.ContainerStatus{
			ID: runtime.ContainerID{Runtime: "test", ID: id}, Name: name, SandboxID: "s", State: runtime.Running,
			CreatedAt: time.Unix(0, createdAt), Image: "i",
		}
	}
	want := &runtime.PodStatus{
		UID: "a", Name: "name-a", Namespace: "ns", IPs: []string{"10.0.0.1"}, Stamp: 1, ObservedAt: now,
		Sandboxes:  []*runtime.SandboxStatus{{ID: "s", State: runtime.Running, HasNetwork: true, IP: "10.0.0.1", Labels: podLabels("a")}},
		Containers: []*runtime.ContainerStatus{status("c2", "y", 2), status("c1", "x", 1)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// spec/runtime.md 1.5: an object that is gone since the list is skipped; any other
// failure, and an answer without content, fails the reading.
func TestPodStatusErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		name           string
		change         func(*store)
		wantSandboxes  int
		wantContainers int
		wantErr        bool
	}{
		{"container gone", func(s *store) { delete(s.containerStatus, "c1") }, 1, 1, false},
		{"sandbox gone", func(s *store) { delete(s.sandboxStatus, "s") }, 0, 2, false},
		{"container fails", func(s *store) { s.errs["ContainerStatus"] = broken }, 0, 0, true},
		{"sandbox fails", func(s *store) { s.errs["PodSandboxStatus"] = broken }, 0, 0, true},
		{"container is nil", func(s *store) { s.containerStatus["c1"] = nil }, 0, 0, true},
		{"sandbox is nil", func(s *store) { s.sandboxStatus["s"] = nil }, 0, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := onePod()
			tc.change(s)
			got, err := cri.NewView(s, cri.ViewOptions{}).Read(t.Context(), "a")
			if tc.wantErr {
				if err == nil || got != nil || len(s.errs) > 0 && !errors.Is(err, broken) {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			if err != nil || len(got.Sandboxes) != tc.wantSandboxes || len(got.Containers) != tc.wantContainers {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// Half a view would look like lost pods: one failed list fails all.
func TestListErrors(t *testing.T) {
	for _, method := range []string{"Version", "ListPodSandbox", "ListContainers"} {
		s := onePod()
		s.errs[method] = runtime.ErrUnavailable
		view := cri.NewView(s, cri.ViewOptions{})
		if pods, err := view.ListPods(t.Context()); pods != nil || !errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("%s: got %v, %v", method, pods, err)
		}
		if status, err := view.Read(t.Context(), "a"); status != nil || !errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("%s: got %v, %v", method, status, err)
		}
	}
}

// spec/runtime.md 1.6: the stamp is older than the reading, even for a pod that
// turns out not to exist; something that happened during the list must not seem to
// be in it.
func TestStampIsDrawnBeforeTheList(t *testing.T) {
	for _, uid := range []types.UID{"a", "absent"} {
		var (
			sequence runtime.Sequence
			during   runtime.Stamp
		)
		s := onePod()
		s.during = func() { during = sequence.Next() }
		got, err := cri.NewView(s, cri.ViewOptions{Sequence: &sequence}).Read(t.Context(), uid)
		if err != nil || got.UID != uid || got.Stamp == 0 || got.Stamp >= during {
			t.Errorf("pod %s: got %+v, %v; want a stamp before %d", uid, got, err, during)
		}
	}
}

// An absent pod is an empty status, not an error and not nil.
func TestReadAbsent(t *testing.T) {
	got, err := cri.NewView(onePod(), cri.ViewOptions{}).Read(t.Context(), "absent")
	if err != nil || got == nil || got.UID != "absent" || len(got.Sandboxes)+len(got.Containers) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// The runtime's name is asked for once, and again after a failure.
func TestRuntimeNameIsRemembered(t *testing.T) {
	s := onePod()
	view := cri.NewView(s, cri.ViewOptions{})
	s.errs["Version"] = runtime.ErrUnavailable
	if _, err := view.ListPods(t.Context()); err == nil {
		t.Fatal("no error")
	}
	delete(s.errs, "Version")
	for range 3 {
		if _, err := view.ListPods(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if s.versions != 2 {
		t.Errorf("Version was called %d times, want 2", s.versions)
	}
}
