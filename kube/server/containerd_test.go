//go:build containerd

package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	clientstreams "k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	clientexec "k8s.io/client-go/util/exec"
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
	r := onContainerd(t)
	for _, way := range []string{"SPDY", "WebSocket"} {
		t.Run(way, func(t *testing.T) {
			run := func(query, script string, options clientstreams.StreamOptions) error {
				u, err := url.Parse(r.address + "/exec/default/web/app?" + query + "&" + url.Values{"command": {"sh", "-c", script}}.Encode())
				if err != nil {
					t.Fatal(err)
				}
				e, err := dialers(r, u)[way]()
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				return e.StreamWithContext(ctx, options)
			}
			input := strings.Repeat("0123456789abcdef", 20000)
			var stdout, stderr bytes.Buffer
			err := run("input=1&output=1&error=1", "cat; echo done >&2; exit 7",
				clientstreams.StreamOptions{Stdin: strings.NewReader(input), Stdout: &stdout, Stderr: &stderr})
			var exit clientexec.CodeExitError
			if !errors.As(err, &exit) || exit.Code != 7 || stdout.String() != input || stderr.String() != "done\n" {
				t.Errorf("%d bytes of %d, stderr %q, %v", stdout.Len(), len(input), stderr.String(), err)
			}
			sizes := make(terminal, 1)
			sizes <- clientstreams.TerminalSize{Width: 120, Height: 50}
			defer close(sizes)
			in, out := io.Pipe()
			defer out.Close()
			var screen bytes.Buffer
			err = run("input=1&output=1&tty=1", `while [ "$(stty size)" != "50 120" ]; do sleep 0.1; done; echo it has it`,
				clientstreams.StreamOptions{Stdin: in, Stdout: &screen, Tty: true, TerminalSizeQueue: sizes})
			if err != nil || !strings.Contains(screen.String(), "it has it\r\n") {
				t.Errorf("terminal: %q, %v", screen.String(), err)
			}
		})
	}
}

// KH4 on a real containerd: kubectl port-forward's way to a port of the pod.
func TestContainerdPortForward(t *testing.T) {
	r := onContainerd(t)
	transport, upgrader, err := spdy.RoundTripperFor(r.config())
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(r.address + "/portForward/default/web")
	if err != nil {
		t.Fatal(err)
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u)
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:8080"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local))))
	if err != nil {
		t.Fatal(err)
	}
	said := make([]byte, len("hello\n"))
	if _, err := io.ReadFull(conn, said); err != nil || string(said) != "hello\n" {
		t.Errorf("%q, %v", said, err)
	}
	conn.Close()
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
