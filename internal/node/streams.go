package node

import (
	"context"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// Streams opens streams to containers in the way that the runtime supports (spec/runtime.md 27.1, 27.2): a
// runtime with its own stream server returns a URL, and a runtime in this program serves the stream itself.
type Streams struct {
	pod    func(uid types.UID) (*v1.Pod, bool)
	view   func(uid types.UID) (*runtime.PodStatus, error)
	urls   cri.Streamer        // nil: the runtime has no stream server
	direct cri.DirectStreamer  // nil: it does not serve streams itself
	ports  cri.DirectForwarder // nil: it does not forward ports itself
}

// NewStreams returns the streams of a runtime. pod returns a pod with its newest status, view what the
// runtime was last seen to have of it.
func NewStreams(rt cri.RuntimeService, pod func(types.UID) (*v1.Pod, bool), view func(types.UID) (*runtime.PodStatus, error)) *Streams {
	s := &Streams{pod: pod, view: view}
	s.urls, _ = rt.(cri.Streamer)
	s.direct, _ = rt.(cri.DirectStreamer)
	s.ports, _ = rt.(cri.DirectForwarder)
	return s
}

// Exec runs a command in a container, or returns the URL at which the runtime does.
func (s *Streams) Exec(ctx context.Context, uid types.UID, container string, cmd []string, ends cri.Streams) (url string, err error) {
	if len(cmd) == 0 {
		return "", fmt.Errorf("exec in container %q of pod %q: no command given: %w", container, uid, runtime.ErrInvalid)
	}
	id, err := s.running(uid, container)
	switch {
	case err != nil:
		return "", fmt.Errorf("exec: %w", err)
	case s.direct != nil:
		return "", s.direct.ExecStream(ctx, id, cmd, ends)
	case s.urls == nil:
		return "", fmt.Errorf("exec: %w", runtime.ErrUnimplemented)
	}
	response, err := s.urls.Exec(ctx, &runtimeapi.ExecRequest{
		ContainerId: id, Cmd: cmd, Tty: ends.TTY, Stdin: ends.Stdin != nil, Stdout: ends.Stdout != nil, Stderr: ends.Stderr != nil && !ends.TTY,
	})
	if err != nil {
		return "", fmt.Errorf("exec in container %q of pod %q: %w", container, uid, err)
	}
	return response.GetUrl(), nil
}

// Attach connects to the main process of a container, or returns the URL at which the runtime does.
func (s *Streams) Attach(ctx context.Context, uid types.UID, container string, ends cri.Streams) (url string, err error) {
	id, err := s.running(uid, container)
	switch {
	case err != nil:
		return "", fmt.Errorf("attach: %w", err)
	case s.direct != nil:
		return "", s.direct.AttachStream(ctx, id, ends)
	case s.urls == nil:
		return "", fmt.Errorf("attach: %w", runtime.ErrUnimplemented)
	}
	response, err := s.urls.Attach(ctx, &runtimeapi.AttachRequest{
		ContainerId: id, Tty: ends.TTY, Stdin: ends.Stdin != nil, Stdout: ends.Stdout != nil, Stderr: ends.Stderr != nil && !ends.TTY,
	})
	if err != nil {
		return "", fmt.Errorf("attach to container %q of pod %q: %w", container, uid, err)
	}
	return response.GetUrl(), nil
}

// PortForward connects conn to the port of a pod, or returns the URL at which the runtime forwards ports.
func (s *Streams) PortForward(ctx context.Context, uid types.UID, conn io.ReadWriter, ports []int32) (url string, err error) {
	pod, ok := s.pod(uid)
	if !ok {
		return "", fmt.Errorf("forward ports of pod %q: %w", uid, runtime.ErrNotFound)
	}
	if url, err = s.forward(ctx, pod, conn, ports); err != nil {
		return "", fmt.Errorf("forward ports of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return url, nil
}

func (s *Streams) forward(ctx context.Context, pod *v1.Pod, conn io.ReadWriter, ports []int32) (url string, err error) {
	if s.urls == nil && s.ports == nil {
		return "", runtime.ErrUnimplemented
	}
	for _, port := range ports {
		if port < 1 || port > 65535 {
			return "", fmt.Errorf("no port is %d: %w", port, runtime.ErrInvalid)
		}
	}
	if s.ports != nil && (conn == nil || len(ports) != 1) {
		return "", fmt.Errorf("this runtime forwards one connection to one port at a time: %w", runtime.ErrInvalid)
	}
	view, err := s.view(pod.UID)
	if err != nil {
		return "", err
	}
	for _, sandbox := range view.Sandboxes { // newest first
		switch {
		case sandbox.State != runtime.Running:
			continue
		case s.ports != nil:
			return "", s.ports.ForwardPort(ctx, sandbox.ID, ports[0], conn)
		}
		response, err := s.urls.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: sandbox.ID, Port: ports})
		return response.GetUrl(), err
	}
	return "", fmt.Errorf("it has no running sandbox: %w", runtime.ErrFailedPrecondition)
}

// running returns the runtime's ID of the running container.
func (s *Streams) running(uid types.UID, container string) (id string, err error) {
	pod, ok := s.pod(uid)
	if !ok {
		return "", fmt.Errorf("pod %q: %w", uid, runtime.ErrNotFound)
	}
	if !podinfo.HasContainer(pod, container) {
		return "", fmt.Errorf("container %q not found in pod %q: %w", container, pod.Name, runtime.ErrNotFound)
	}
	view, err := s.view(pod.UID)
	if err != nil {
		return "", fmt.Errorf("container %q of pod %q: %w", container, pod.Name, err)
	}
	if c := view.Container(container); c != nil && c.State == runtime.Running {
		return c.ID.ID, nil
	}
	return "", fmt.Errorf("container %q of pod %q is not running: %w", container, pod.Name, runtime.ErrFailedPrecondition)
}
