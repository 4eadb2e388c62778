//go:build linux

package process

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/patience"
)

type mode struct {
	name       string
	supervisor Supervisor
}

func modes() []mode {
	return []mode{
		{"supervised", Supervisor{executable: selfExecutable}},
		{"unsupervised", Supervisor{}},
	}
}

// eachMode runs a test with and without supervisors.
func eachMode(t *testing.T, f func(t *testing.T, supervisor Supervisor)) {
	for _, m := range modes() {
		t.Run(m.name, func(t *testing.T) { f(t, m.supervisor) })
	}
}

// newRuntime returns a runtime in a fresh folder. At the end all its pods are
// removed and it is closed.
func newRuntime(t *testing.T, supervisor Supervisor) *Runtime {
	t.Helper()
	return openRuntime(t, filepath.Join(t.TempDir(), "root"), supervisor)
}

func openRuntime(t *testing.T, root string, supervisor Supervisor) *Runtime {
	t.Helper()
	r, err := New(Options{Root: root, Supervisor: supervisor})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if r.isClosed() {
			return
		}
		sandboxes, err := r.ListPodSandbox(ctx, nil)
		if err != nil {
			t.Error(err)
		}
		for _, s := range sandboxes {
			if err := r.RemovePodSandbox(ctx, s.GetId()); err != nil {
				t.Error(err)
			}
		}
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// sandboxConfig is a sandbox whose logs are in a folder of the test.
func sandboxConfig(t *testing.T) *runtimeapi.PodSandboxConfig {
	t.Helper()
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "default", Uid: "uid"},
		LogDirectory: filepath.Join(t.TempDir(), "logs"),
	}
}

// shell is a container that runs a shell script.
func shell(script string, change ...func(*runtimeapi.ContainerConfig)) *runtimeapi.ContainerConfig {
	c := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
		Image:    &runtimeapi.ImageSpec{Image: "host"},
		Command:  []string{"/bin/sh", "-c", script},
		LogPath:  "main/0.log",
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func runSandbox(t *testing.T, r *Runtime) string {
	t.Helper()
	id, err := r.RunPodSandbox(t.Context(), sandboxConfig(t), "")
	must(t, err)
	return id
}

// runContainer runs a container in a sandbox of its own.
func runContainer(t *testing.T, r *Runtime, config *runtimeapi.ContainerConfig) string {
	t.Helper()
	id, err := r.CreateContainer(t.Context(), runSandbox(t, r), config, nil)
	must(t, err)
	must(t, r.StartContainer(t.Context(), id))
	return id
}

func status(t *testing.T, r *Runtime, id string) *runtimeapi.ContainerStatus {
	t.Helper()
	response, err := r.ContainerStatus(t.Context(), id, false)
	must(t, err)
	return response.GetStatus()
}

func info(t *testing.T, r *Runtime, id string) containerInfo {
	t.Helper()
	response, err := r.ContainerStatus(t.Context(), id, true)
	must(t, err)
	var i containerInfo
	must(t, json.Unmarshal([]byte(response.GetInfo()["info"]), &i))
	return i
}

// waitExit waits for the end of a container and returns its status.
func waitExit(t *testing.T, r *Runtime, id string) *runtimeapi.ContainerStatus {
	t.Helper()
	must(t, r.wait(t.Context(), r.container(id).exited))
	return status(t, r, id)
}

// waitExitRecord waits until the supervisor has recorded the end of a container.
func waitExitRecord(t *testing.T, r *Runtime, id string) {
	t.Helper()
	patience.Until(t, "its end is recorded", func() bool {
		ok, err := readRecord(r.path(containersDir, id), exitFile, &exitRecord{})
		return ok && err == nil
	})
}

// waitLine waits until the container's log file has a line.
func waitLine(t *testing.T, r *Runtime, id, line string) {
	t.Helper()
	path := status(t, r, id).GetLogPath()
	patience.Until(t, "line "+line, func() bool {
		return strings.Contains(readFile(t, path), " "+line+"\n")
	})
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

// logText is the text of a container's log, without times and tags.
func logText(t *testing.T, r *Runtime, id string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(readFile(t, status(t, r, id).GetLogPath())) {
		if fields := strings.SplitN(line, " ", 4); len(fields) == 4 {
			out.WriteString(fields[3])
		}
	}
	return out.String()
}
