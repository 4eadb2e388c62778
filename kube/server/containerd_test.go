//go:build containerd

package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// onContainerd serves the pod web, whose container runs on a real containerd and answers on port 8080.
func onContainerd(t *testing.T) *rig {
	t.Helper()
	i := containerdtest.Start(t)
	c, err := cri.Dial(t.Context(), i.Endpoint, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	none := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: web.Name, Namespace: web.Namespace, Uid: string(web.UID)},
		Labels:       map[string]string{runtime.LabelPodUID: string(web.UID)},
		LogDirectory: t.TempDir(),
		Linux:        &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: none}},
	}
	sandbox, err := c.RunPodSandbox(t.Context(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(c.StopPodSandbox(ctx, sandbox), c.RemovePodSandbox(ctx, sandbox)); err != nil {
			t.Error(err)
		}
	})
	id, err := c.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: i.Image}, LogPath: "app.log",
		Command: []string{"sh", "-c", "while :; do echo hello | nc -l -p 8080; done"},
		Linux:   &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: none}},
	}, config)
	if err == nil {
		err = c.StartContainer(t.Context(), id)
	}
	if err == nil { // 8080 is 1F90 in the tables of sockets
		_, _, err = c.ExecSync(t.Context(), id, []string{"sh", "-c", "until grep -qs ':1F90 ' /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done"}, time.Minute)
	}
	if err != nil {
		t.Fatal(err)
	}
	pod := web.DeepCopy()
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "app", ContainerID: "containerd://" + id, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
	}}
	r := newRig(t, c)
	r.engine.pod = pod
	return r
}

// KH4, KH5 on a real containerd, whatever WebSockets it speaks itself: input and its end, outputs, exit
// codes, the size of a terminal.
func TestContainerdExec(t *testing.T) {
	commandsOfShell(t, onContainerd(t))
}

// KH4 on a real containerd: kubectl port-forward's way to a port of the pod.
func TestContainerdPortForward(t *testing.T) {
	conn, err := net.Dial("tcp", forwarded(t, onContainerd(t), 8080))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	said := make([]byte, len("hello\n"))
	if _, err := io.ReadFull(conn, said); err != nil || string(said) != "hello\n" {
		t.Errorf("%q, %v", said, err)
	}
}

// KH4 on a real containerd: a WebSocket's way to a port of the pod.
func TestContainerdPortForwardWebSocket(t *testing.T) {
	conn := onContainerd(t).openedAs("/portForward/default/web?port=8080", "v4.channel.k8s.io")
	var got []byte // of the first channel, which begins with the port's number
	for !bytes.HasSuffix(got, []byte("hello\n")) {
		_, data, err := conn.ReadMessage()
		if err != nil {
			t.Fatalf("%v after %q", err, got)
		}
		if len(data) > 0 && data[0] == 0 {
			got = append(got, data[1:]...)
		}
	}
	if string(got) != "\x90\x1fhello\n" {
		t.Errorf("%q", got)
	}
}
