//go:build linux

package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	clientstreams "k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/process"
)

// KH4, KH5 with the embedded runtime, which serves its streams itself: input and its end, both outputs, the
// exit code, and a terminal of the size that the client has.
func TestExecInProcessRuntime(t *testing.T) {
	rt, err := process.New(process.Options{Root: t.TempDir() + "/root"})
	if err != nil {
		t.Fatal(err)
	}
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: web.Name, Namespace: web.Namespace, Uid: string(web.UID)}, LogDirectory: t.TempDir(),
	}
	sandbox, err := rt.RunPodSandbox(t.Context(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(rt.RemovePodSandbox(ctx, sandbox), rt.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	id, err := rt.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "host"},
		Command: []string{"/bin/sh", "-c", "sleep 1000"}, LogPath: "app.log",
	}, config)
	if err == nil {
		err = rt.StartContainer(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	pod := web.DeepCopy()
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "app", ContainerID: "process://" + id, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
	}}
	r := newRig(t, rt)
	r.engine.pod = pod
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
				return e.StreamWithContext(t.Context(), options)
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
