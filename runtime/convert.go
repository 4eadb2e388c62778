package runtime

import (
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerState converts a CRI container state; anything unrecognised is
// [Unknown] (spec/runtime.md 1.2).
func ContainerState(s runtimeapi.ContainerState) State {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return Created
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return Running
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return Exited
	default:
		return Unknown
	}
}

// SandboxState converts a CRI sandbox state: ready is [Running], not ready is
// [Exited], anything unrecognised [Unknown].
func SandboxState(s runtimeapi.PodSandboxState) State {
	switch s {
	case runtimeapi.PodSandboxState_SANDBOX_READY:
		return Running
	case runtimeapi.PodSandboxState_SANDBOX_NOTREADY:
		return Exited
	default:
		return Unknown
	}
}

// NewSandboxStatus converts a CRI sandbox status.
func NewSandboxStatus(s *runtimeapi.PodSandboxStatus) *SandboxStatus {
	out := &SandboxStatus{
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
func NewContainerStatus(s *runtimeapi.ContainerStatus, runtimeName string) *ContainerStatus {
	out := &ContainerStatus{
		ID:          ContainerID{Runtime: runtimeName, ID: s.GetId()},
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
	if n, err := strconv.Atoi(s.GetAnnotations()[AnnotationRestartCount]); err == nil && n > 0 {
		out.RestartCount = n
	}
	if h, err := strconv.ParseUint(s.GetAnnotations()[AnnotationHash], 16, 64); err == nil {
		out.Hash = h
	}
	if out.State != Created {
		out.StartedAt = fromNanos(s.GetStartedAt())
	}
	if out.State == Exited {
		out.FinishedAt = fromNanos(s.GetFinishedAt())
		out.ExitCode = s.GetExitCode()
		out.Reason = s.GetReason()
		out.Message = s.GetMessage()
	}
	if len(s.GetMounts()) > 0 {
		out.Mounts = make(map[string]string, len(s.GetMounts()))
		for _, m := range s.GetMounts() {
			out.Mounts[m.GetContainerPath()] = m.GetHostPath()
			if m.GetRecursiveReadOnly() {
				out.RecursiveReadOnly = append(out.RecursiveReadOnly, m.GetContainerPath())
			}
		}
	}
	return out
}

func userOf(u *runtimeapi.LinuxContainerUser) *User {
	if u == nil {
		return nil
	}
	return &User{UID: u.GetUid(), GID: u.GetGid(), Groups: u.GetSupplementalGroups()}
}

// signalName is the signal as the API writes it, such as SIGTERM or SIGRTMIN+3.
func signalName(s runtimeapi.Signal) string {
	return strings.NewReplacer("SIGNAL_", "", "PLUS", "+", "MINUS", "-").Replace(s.String())
}

// fromNanos converts a CRI time; 0 means the moment never came.
func fromNanos(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}
