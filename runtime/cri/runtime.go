package cri

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
)

// errNoID: the runtime reported that a create call succeeded, but returned no ID.
var errNoID = errors.New("the runtime returned no ID")

func versionRequest(apiVersion string) *runtimeapi.VersionRequest {
	return &runtimeapi.VersionRequest{Version: apiVersion}
}

// Version implements Reader.
func (c *Client) Version(ctx context.Context, apiVersion string) (*runtimeapi.VersionResponse, error) {
	return call(ctx, c, "Version", c.options.CallTimeout, c.runtime.Version, versionRequest(apiVersion))
}

// Status implements RuntimeService.
func (c *Client) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	return call(ctx, c, "Status", c.options.CallTimeout, c.runtime.Status,
		&runtimeapi.StatusRequest{Verbose: verbose})
}

// RunPodSandbox implements SandboxManager. Its limit is twice the
// ordinary one: setting up a network may be slow.
func (c *Client) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (string, error) {
	const op = "RunPodSandbox"
	response, err := call(ctx, c, op, 2*c.options.CallTimeout, c.runtime.RunPodSandbox,
		&runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: runtimeHandler})
	if err != nil {
		return "", err
	}
	if response.GetPodSandboxId() == "" {
		return "", c.failure(op, errNoID)
	}
	return response.GetPodSandboxId(), nil
}

// StopPodSandbox implements SandboxManager.
func (c *Client) StopPodSandbox(ctx context.Context, podSandboxID string) error {
	_, err := call(ctx, c, "StopPodSandbox", c.options.CallTimeout, c.runtime.StopPodSandbox,
		&runtimeapi.StopPodSandboxRequest{PodSandboxId: podSandboxID})
	return missingIsFine(err)
}

// RemovePodSandbox implements SandboxManager.
func (c *Client) RemovePodSandbox(ctx context.Context, podSandboxID string) error {
	_, err := call(ctx, c, "RemovePodSandbox", c.options.CallTimeout, c.runtime.RemovePodSandbox,
		&runtimeapi.RemovePodSandboxRequest{PodSandboxId: podSandboxID})
	return missingIsFine(err)
}

// PodSandboxStatus implements Reader.
func (c *Client) PodSandboxStatus(ctx context.Context, podSandboxID string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	return call(ctx, c, "PodSandboxStatus", c.options.CallTimeout, c.runtime.PodSandboxStatus,
		&runtimeapi.PodSandboxStatusRequest{PodSandboxId: podSandboxID, Verbose: verbose})
}

// CreateContainer implements ContainerManager.
func (c *Client) CreateContainer(ctx context.Context, podSandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	const op = "CreateContainer"
	response, err := call(ctx, c, op, c.options.CallTimeout, c.runtime.CreateContainer,
		&runtimeapi.CreateContainerRequest{PodSandboxId: podSandboxID, Config: config, SandboxConfig: sandboxConfig})
	if err != nil {
		return "", err
	}
	if response.GetContainerId() == "" {
		return "", c.failure(op, errNoID)
	}
	return response.GetContainerId(), nil
}

// StartContainer implements ContainerManager.
func (c *Client) StartContainer(ctx context.Context, containerID string) error {
	_, err := call(ctx, c, "StartContainer", c.options.CallTimeout, c.runtime.StartContainer,
		&runtimeapi.StartContainerRequest{ContainerId: containerID})
	return err
}

// StopContainer implements ContainerManager. Its limit is the ordinary
// one plus the grace period.
func (c *Client) StopContainer(ctx context.Context, containerID string, timeout int64) error {
	_, err := call(ctx, c, "StopContainer", after(c.options.CallTimeout, timeout), c.runtime.StopContainer,
		&runtimeapi.StopContainerRequest{ContainerId: containerID, Timeout: timeout})
	return err
}

// RemoveContainer implements ContainerManager.
func (c *Client) RemoveContainer(ctx context.Context, containerID string) error {
	_, err := call(ctx, c, "RemoveContainer", c.options.CallTimeout, c.runtime.RemoveContainer,
		&runtimeapi.RemoveContainerRequest{ContainerId: containerID})
	return missingIsFine(err)
}

// ContainerStatus implements Reader.
func (c *Client) ContainerStatus(ctx context.Context, containerID string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	return call(ctx, c, "ContainerStatus", c.options.CallTimeout, c.runtime.ContainerStatus,
		&runtimeapi.ContainerStatusRequest{ContainerId: containerID, Verbose: verbose})
}

// maxOutput is how many bytes a command may print for ExecSync, both outputs together
// (spec/runtime.md 23.8). One with a time-out is a probe's: a KiB of its output is kept, and every
// container may run one at the same time. One without is a hook's, which may print what a
// runtime sends.
func maxOutput(timeout time.Duration) int {
	if timeout > 0 {
		return 1 << 20
	}
	return maxMessageSize
}

// ExecSync implements ContainerManager. A command that prints more than 1 MiB, or without a
// time-out more than 16 MiB, fails with runtime.ErrExhausted, however it ended; its answer is
// not read. CRI counts the time-out in seconds; a fraction
// is rounded up. With a time-out, the call's limit is the ordinary one plus the
// time-out; without one there is no limit. containerd answers late, or not at all, if
// the command left children behind that hold its output: a caller that cannot wait sets
// a deadline on ctx. stdout and stderr are returned even if the exit code is not 0. A
// negative exit code means that the command did not end by itself: with a time-out that
// is runtime.ErrDeadline.
func (c *Client) ExecSync(ctx context.Context, containerID string, cmd []string, timeout time.Duration) (stdout []byte, stderr []byte, err error) {
	var seconds int64
	limit := noLimit
	if timeout > 0 {
		seconds = int64((timeout + time.Second - 1) / time.Second)
		limit = after(c.options.CallTimeout, seconds)
	}
	const envelope = 1 << 10 // what is around the outputs
	response, err := call(ctx, c, "ExecSync", limit, c.runtime.ExecSync,
		&runtimeapi.ExecSyncRequest{ContainerId: containerID, Cmd: cmd, Timeout: seconds},
		grpc.MaxCallRecvMsgSize(maxOutput(timeout)+envelope))
	if err != nil {
		return nil, nil, err
	}
	switch code := response.GetExitCode(); {
	case code < 0:
		err = c.failure("ExecSync", cutOff(code, timeout))
	case code > 0:
		err = &runtime.ExitError{Code: int(code)}
	}
	return response.GetStdout(), response.GetStderr(), err
}

// cutOff returns the error of a command that did not end by itself. Instead of an error,
// some runtimes report this as an exit code that no process can have (spec/runtime.md 23.7).
func cutOff(code int32, timeout time.Duration) error {
	if timeout > 0 {
		return status.Errorf(codes.DeadlineExceeded, "the command did not end within %v (exit code %d)", timeout, code)
	}
	return status.Errorf(codes.Unknown, "the command did not end by itself (exit code %d)", code)
}

// ReopenContainerLog implements ContainerManager.
func (c *Client) ReopenContainerLog(ctx context.Context, containerID string) error {
	_, err := call(ctx, c, "ReopenContainerLog", c.options.CallTimeout, c.runtime.ReopenContainerLog,
		&runtimeapi.ReopenContainerLogRequest{ContainerId: containerID})
	return err
}

// after returns limit plus seconds, which may be negative or far too large.
func after(limit time.Duration, seconds int64) time.Duration {
	return limit + min(timing.Seconds(max(seconds, 0)), math.MaxInt64-limit)
}
