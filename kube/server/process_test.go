//go:build linux

package server

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
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
	commandsOfShell(t, r)
}
