package cri_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// spec/runtime.md 1.2: states this version does not know become Unknown.
func TestUnknownStatesOfTheRuntimeReadAsUnknown(t *testing.T) {
	for in, want := range map[runtimeapi.ContainerState]runtime.State{
		runtimeapi.ContainerState_CONTAINER_CREATED: runtime.Created,
		runtimeapi.ContainerState_CONTAINER_RUNNING: runtime.Running,
		runtimeapi.ContainerState_CONTAINER_EXITED:  runtime.Exited,
		runtimeapi.ContainerState_CONTAINER_UNKNOWN: runtime.Unknown,
		99: runtime.Unknown,
	} {
		if got := cri.ContainerState(in); got != want {
			t.Errorf("container %v: %v, want %v", in, got, want)
		}
	}
	for in, want := range map[runtimeapi.PodSandboxState]runtime.State{
		runtimeapi.PodSandboxState_SANDBOX_READY:    runtime.Running,
		runtimeapi.PodSandboxState_SANDBOX_NOTREADY: runtime.Exited,
		99: runtime.Unknown,
	} {
		if got := cri.SandboxState(in); got != want {
			t.Errorf("sandbox %v: %v, want %v", in, got, want)
		}
	}
}

// spec/runtime.md 1.8: what a state does not allow stays zero, however much the
// runtime says.
func TestNewContainerStatusByState(t *testing.T) {
	full := func(state runtimeapi.ContainerState) *runtimeapi.ContainerStatus {
		return &runtimeapi.ContainerStatus{
			Id: "c1", Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, State: state,
			CreatedAt: 1, StartedAt: 2, FinishedAt: 3, ExitCode: 4, Reason: "Error", Message: "m",
			Image: &runtimeapi.ImageSpec{Image: "i:1"}, ImageRef: "sha256:r", ImageId: "sha256:i",
			LogPath: "/log",
		}
	}
	base := runtime.ContainerStatus{
		ID: runtime.ContainerID{Runtime: "r", ID: "c1"}, Name: "main", CreatedAt: time.Unix(0, 1),
		Image: "i:1", ImageRef: "sha256:r", ImageID: "sha256:i", LogPath: "/log",
	}
	created, running, exited, unknown := base, base, base, base
	created.State = runtime.Created
	running.State, running.StartedAt = runtime.Running, time.Unix(0, 2)
	exited.State, exited.StartedAt, exited.FinishedAt = runtime.Exited, time.Unix(0, 2), time.Unix(0, 3)
	exited.ExitCode, exited.Reason, exited.Message = 4, "Error", "m"
	unknown.State, unknown.StartedAt = runtime.Unknown, time.Unix(0, 2)
	for state, want := range map[runtimeapi.ContainerState]runtime.ContainerStatus{
		runtimeapi.ContainerState_CONTAINER_CREATED: created,
		runtimeapi.ContainerState_CONTAINER_RUNNING: running,
		runtimeapi.ContainerState_CONTAINER_EXITED:  exited,
		runtimeapi.ContainerState_CONTAINER_UNKNOWN: unknown,
	} {
		if diff := cmp.Diff(&want, cri.NewContainerStatus(full(state), "r")); diff != "" {
			t.Errorf("%v (-want +got):\n%s", state, diff)
		}
	}
}

// spec/runtime.md 1.8: without an image ID the reference stands for it
// (containerd 1.6 sends none).
func TestImageIDFallsBack(t *testing.T) {
	got := cri.NewContainerStatus(&runtimeapi.ContainerStatus{ImageRef: "sha256:r"}, "r")
	if got.ImageID != "sha256:r" {
		t.Errorf("image ID %q", got.ImageID)
	}
}

// A time of 0, or before 1970, means "never": a container that could not be started has
// exited without having been started.
func TestZeroTimes(t *testing.T) {
	for _, never := range []int64{0, time.Time{}.UnixNano()} { // CRI-O sends the latter
		got := cri.NewContainerStatus(&runtimeapi.ContainerStatus{
			State: runtimeapi.ContainerState_CONTAINER_EXITED, StartedAt: never, FinishedAt: 5, ExitCode: 128, Reason: "StartError",
		}, "r")
		if !got.CreatedAt.IsZero() || !got.StartedAt.IsZero() || !got.FinishedAt.Equal(time.Unix(0, 5)) {
			t.Errorf("%d: got %+v", never, got)
		}
	}
}

// spec/runtime.md 2.2, 2.3: annotations are read back; a bad value reads as
// zero, never as an error.
func TestBadAnnotationReadsAsZero(t *testing.T) {
	for _, tc := range []struct {
		name, hash, count string
		wantHash          uint64
		wantCount         int
	}{
		{"written by us", "5d0e8bc9", "3", 0x5d0e8bc9, 3},
		{"zero", "0", "0", 0, 0},
		{"missing", "", "", 0, 0},
		{"malformed", "xyz", "three", 0, 0},
		{"upper case and prefix", "0x1", "1.0", 0, 0},
		{"negative", "-1", "-1", 0, 0},
		{"too large", "ffffffffffffffffff", "99999999999999999999", 0, 0},
		{"64 bits, and the largest count", "ffffffffffffffff", "1073741823", 1<<64 - 1, 1073741823},
		{"no room for later runs", "1", "2147483647", 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			annotations := map[string]string{"other": "x"}
			if tc.hash != "" {
				annotations[runtime.AnnotationHash] = tc.hash
			}
			if tc.count != "" {
				annotations[runtime.AnnotationRestartCount] = tc.count
			}
			got := cri.NewContainerStatus(&runtimeapi.ContainerStatus{Annotations: annotations}, "r")
			if got.Hash != tc.wantHash || got.RestartCount != tc.wantCount {
				t.Errorf("hash %x, count %d; want %x, %d", got.Hash, got.RestartCount, tc.wantHash, tc.wantCount)
			}
			if diff := cmp.Diff(annotations, got.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatusHasMountsByContainerPath(t *testing.T) {
	got := cri.NewContainerStatus(&runtimeapi.ContainerStatus{Mounts: []*runtimeapi.Mount{
		{ContainerPath: "/dev/termination-log", HostPath: "/var/x"},
		{ContainerPath: "/data", HostPath: "/var/y"},
	}}, "r")
	want := map[string]string{"/dev/termination-log": "/var/x", "/data": "/var/y"}
	if diff := cmp.Diff(want, got.Mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

// cleanup.md IG2: the image as the runtime was given it, not the pod's name for it.
func TestStatusHasMountedImages(t *testing.T) {
	got := cri.NewContainerStatus(&runtimeapi.ContainerStatus{Mounts: []*runtimeapi.Mount{
		{ContainerPath: "/data", HostPath: "/var/y"},
		{ContainerPath: "/a", Image: &runtimeapi.ImageSpec{Image: "sha256:1", UserSpecifiedImage: "a:1"}},
		{ContainerPath: "/b", Image: &runtimeapi.ImageSpec{Image: "sha256:2"}},
		{ContainerPath: "/c", Image: &runtimeapi.ImageSpec{}},
	}}, "r")
	if diff := cmp.Diff([]string{"sha256:1", "sha256:2"}, got.MountedImages); diff != "" {
		t.Errorf("IG2: mounted images (-want +got):\n%s", diff)
	}
}

func TestNewSandboxStatus(t *testing.T) {
	got := cri.NewSandboxStatus(&runtimeapi.PodSandboxStatus{
		Id: "s1", Metadata: &runtimeapi.PodSandboxMetadata{Attempt: 2}, State: runtimeapi.PodSandboxState_SANDBOX_READY,
		CreatedAt: 7, RuntimeHandler: "kata",
		Network: &runtimeapi.PodSandboxNetworkStatus{
			Ip: "10.0.0.1", AdditionalIps: []*runtimeapi.PodIP{{Ip: "fd00::1"}, {Ip: "fd00::2"}},
		},
		Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"},
	})
	want := &runtime.SandboxStatus{
		ID: "s1", State: runtime.Running, Attempt: 2, CreatedAt: time.Unix(0, 7), RuntimeHandler: "kata", HasNetwork: true,
		IP: "10.0.0.1", AdditionalIPs: []string{"fd00::1", "fd00::2"},
		Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Three answers that mean three things (spec/runtime.md 5, rows 4 and 5): no
// network status, a network without address, the node's network.
func TestSandboxNetwork(t *testing.T) {
	host := &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
		Options: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
	}}
	for _, tc := range []struct {
		name            string
		in              *runtimeapi.PodSandboxStatus
		wantHost, wantN bool
	}{
		{"none", &runtimeapi.PodSandboxStatus{}, false, false},
		{"no address", &runtimeapi.PodSandboxStatus{Network: &runtimeapi.PodSandboxNetworkStatus{}}, false, true},
		{"host network", &runtimeapi.PodSandboxStatus{Linux: host}, true, false},
	} {
		got := cri.NewSandboxStatus(tc.in)
		if got.HostNetwork != tc.wantHost || got.HasNetwork != tc.wantN || got.IP != "" {
			t.Errorf("%s: got %+v", tc.name, got)
		}
	}
}

// What a status says of the container's user, stop signal and mounts (spec/status.md 3.9).
func TestStatusHasUserSignalAndDepthOfMounts(t *testing.T) {
	got := cri.NewContainerStatus(&runtimeapi.ContainerStatus{
		User:       &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{Uid: 1, Gid: 2, SupplementalGroups: []int64{3}}},
		StopSignal: runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3,
		Mounts: []*runtimeapi.Mount{
			{ContainerPath: "/a", Readonly: true}, {ContainerPath: "/b", Readonly: true, RecursiveReadOnly: true},
		},
	}, "x")
	if u := got.User; u == nil || u.UID != 1 || u.GID != 2 || !slices.Equal(u.Groups, []int64{3}) {
		t.Errorf("user %+v", u)
	}
	if got.StopSignal != "SIGRTMIN+3" || !slices.Equal(got.RecursiveReadOnly, []string{"/b"}) {
		t.Errorf("signal %q, recursive %q", got.StopSignal, got.RecursiveReadOnly)
	}
	for signal, want := range map[runtimeapi.Signal]string{
		runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT: "", runtimeapi.Signal_SIGNAL_SIGUSR1: "SIGUSR1", runtimeapi.Signal_SIGNAL_SIGRTMAXMINUS2: "SIGRTMAX-2",
	} {
		if got := cri.NewContainerStatus(&runtimeapi.ContainerStatus{StopSignal: signal}, "x").StopSignal; got != want {
			t.Errorf("%v: %q, want %q", signal, got, want)
		}
	}
}
