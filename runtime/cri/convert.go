package cri

import (
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podorder"
	"github.com/podwright/podwright/runtime"
)

// ContainerState converts a CRI container state; anything unrecognised is
// [runtime.Unknown] (spec/runtime.md 1.2).
func ContainerState(s runtimeapi.ContainerState) runtime.State {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return runtime.Created
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return runtime.Running
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return runtime.Exited
	default:
		return runtime.Unknown
	}
}

// SandboxState converts a CRI sandbox state: ready is [runtime.Running], not ready is
// [runtime.Exited], anything unrecognised [runtime.Unknown].
func SandboxState(s runtimeapi.PodSandboxState) runtime.State {
	switch s {
	case runtimeapi.PodSandboxState_SANDBOX_READY:
		return runtime.Running
	case runtimeapi.PodSandboxState_SANDBOX_NOTREADY:
		return runtime.Exited
	default:
		return runtime.Unknown
	}
}

// NewSandboxStatus converts a CRI sandbox status.
func NewSandboxStatus(s *runtimeapi.PodSandboxStatus) *runtime.SandboxStatus {
	out := &runtime.SandboxStatus{
		ID:             s.GetId(),
		State:          SandboxState(s.GetState()),
		Attempt:        s.GetMetadata().GetAttempt(),
		CreatedAt:      fromNanos(s.GetCreatedAt()),
		RuntimeHandler: s.GetRuntimeHandler(),
		HostNetwork:    s.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE,
		HasNetwork:     s.GetNetwork() != nil,
		IP:             s.GetNetwork().GetIp(),
		Labels:         s.GetLabels(),
		Annotations:    s.GetAnnotations(),
	}
	for _, ip := range s.GetNetwork().GetAdditionalIps() {
		out.AdditionalIPs = append(out.AdditionalIPs, ip.GetIp())
	}
	return out
}

// NewContainerStatus converts a CRI container status; runtimeName goes into the
// ID. Fields that the state does not allow stay zero, and a missing or malformed
// annotation reads as 0 (spec/runtime.md 1.8, 2.3). SandboxID is left empty: the
// CRI status does not carry it.
func NewContainerStatus(s *runtimeapi.ContainerStatus, runtimeName string) *runtime.ContainerStatus {
	out := &runtime.ContainerStatus{
		ID:          runtime.ContainerID{Runtime: runtimeName, ID: s.GetId()},
		Name:        s.GetMetadata().GetName(),
		State:       ContainerState(s.GetState()),
		CreatedAt:   fromNanos(s.GetCreatedAt()),
		Image:       s.GetImage().GetImage(),
		ImageRef:    s.GetImageRef(),
		ImageID:     s.GetImageId(),
		LogPath:     s.GetLogPath(),
		Labels:      s.GetLabels(),
		Annotations: s.GetAnnotations(),
		User:        userOf(s.GetUser().GetLinux()),
		Resources:   NewResources(s.GetResources().GetLinux()),
	}
	if signal := s.GetStopSignal(); signal != runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		out.StopSignal = signalName(signal)
	}
	if out.ImageID == "" {
		out.ImageID = out.ImageRef
	}
	if n, ok := podorder.RestartCount(s.GetAnnotations()); ok {
		out.RestartCount = n
	}
	if h, err := strconv.ParseUint(s.GetAnnotations()[runtime.AnnotationHash], 16, 64); err == nil {
		out.Hash = h
	}
	if out.State != runtime.Created {
		out.StartedAt = fromNanos(s.GetStartedAt())
	}
	if out.State == runtime.Exited {
		out.FinishedAt = fromNanos(s.GetFinishedAt())
		out.ExitCode = s.GetExitCode()
		out.Reason = s.GetReason()
		out.Message = s.GetMessage()
	}
	if len(s.GetMounts()) > 0 {
		out.Mounts = make(map[string]string, len(s.GetMounts()))
		for _, m := range s.GetMounts() {
			out.Mounts[m.GetContainerPath()] = m.GetHostPath()
			if image := m.GetImage().GetImage(); image != "" {
				out.MountedImages = append(out.MountedImages, image)
			}
			if m.GetRecursiveReadOnly() {
				out.RecursiveReadOnly = append(out.RecursiveReadOnly, m.GetContainerPath())
			}
		}
	}
	return out
}

func userOf(u *runtimeapi.LinuxContainerUser) *runtime.User {
	if u == nil {
		return nil
	}
	return &runtime.User{UID: u.GetUid(), GID: u.GetGid(), Groups: u.GetSupplementalGroups()}
}

// signalName is the signal as the API writes it, such as SIGTERM or SIGRTMIN+3.
func signalName(s runtimeapi.Signal) string {
	return strings.NewReplacer("SIGNAL_", "", "PLUS", "+", "MINUS", "-").Replace(s.String())
}

// fromNanos converts a CRI time. 0 means the moment never came, and so does what is left of Go's
// zero time in nanoseconds, a negative number that CRI-O sends.
func fromNanos(nanos int64) time.Time {
	if nanos <= 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

// milliFromShares turns cgroup CPU shares into thousandths of a CPU
// (spec/runtime.md 13).
func milliFromShares(shares int64) int64 {
	if shares < minShares {
		return 0
	}
	if shares > maxShares {
		shares = maxShares
	}
	return (shares*1000 + 1023) / 1024
}

// milliFromQuota turns a CPU quota per period, both in microseconds, into
// thousandths of a CPU; no quota is 0 (spec/runtime.md 13).
func milliFromQuota(quota, period int64) int64 {
	const most = 1 << 50 // keeps the product in range
	if quota <= 0 || period <= 0 {
		return 0
	}
	return min(quota, most) * 1000 / period
}

// The range of cgroup CPU shares.
const (
	minShares = 2
	maxShares = 262144
)

// NewResources converts the settings of a cgroup; the zero value if there are none
// (spec/runtime.md 1.8).
func NewResources(linux *runtimeapi.LinuxContainerResources) runtime.Resources {
	if linux == nil {
		return runtime.Resources{}
	}
	return runtime.Resources{
		MilliCPURequest: milliFromShares(linux.GetCpuShares()),
		MilliCPULimit:   milliFromQuota(linux.GetCpuQuota(), linux.GetCpuPeriod()),
		MemoryLimit:     max(linux.GetMemoryLimitInBytes(), 0),
	}
}
