//go:build linux

package process_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/process"
)

// A program calls Shim first thing in main, opens a runtime, and runs a container
// in a sandbox.
func ExampleNew() {
	// func main() {
	supervisor, done := process.Shim()
	if done {
		return
	}
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "process")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	r, err := process.New(process.Options{Root: filepath.Join(dir, "root"), Supervisor: supervisor})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close(ctx)

	sandbox, err := r.RunPodSandbox(ctx, &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "hello", Namespace: "default", Uid: "1"},
		LogDirectory: filepath.Join(dir, "logs"),
	}, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.RemovePodSandbox(ctx, sandbox)
	id, err := r.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
		Image:    &runtimeapi.ImageSpec{Image: "host"},
		Command:  []string{"sh", "-c", "sleep 1000"},
		Envs:     []*runtimeapi.KeyValue{{Key: "GREETING", Value: []byte("hello")}},
		LogPath:  "main/0.log",
	}, nil)
	if err == nil {
		err = r.StartContainer(ctx, id)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	stdout, _, err := r.ExecSync(ctx, id, []string{"sh", "-c", "echo $GREETING"}, 0)
	fmt.Print(string(stdout))
	if err == nil {
		err = r.StopContainer(ctx, id, 0)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	response, err := r.ContainerStatus(ctx, id, false)
	fmt.Println(response.GetStatus().GetState(), response.GetStatus().GetExitCode(), err)
	// Output:
	// hello
	// CONTAINER_EXITED 137 <nil>
}
