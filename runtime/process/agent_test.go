//go:build linux

package process

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// agentEnv makes the test binary an agent: JSON of agentJob.
const agentEnv = "PROCESS_TEST_AGENT"

// agentJob is what an agent does: run one container in a sandbox, print its ID,
// and wait to be killed.
type agentJob struct {
	Root, LogDir, Script string
	Supervised           bool
}

func runAgent(supervisor Supervisor) int {
	var job agentJob
	if err := json.Unmarshal([]byte(os.Getenv(agentEnv)), &job); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if !job.Supervised {
		supervisor = Supervisor{}
	}
	ctx := context.Background()
	r, err := New(Options{Root: job.Root, Supervisor: supervisor})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	sandbox, err := r.RunPodSandbox(ctx, &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "default", Uid: "uid"}, LogDirectory: job.LogDir,
	}, "")
	var id string
	if err == nil {
		id, err = r.CreateContainer(ctx, sandbox, shell(job.Script), nil)
	}
	if err == nil {
		err = r.StartContainer(ctx, id)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(id)
	select {}
}

// agent is an agent in a process of its own.
type agent struct {
	command   *exec.Cmd
	container string
	root      string
	logs      string
}

// startAgent returns once the agent's container runs.
func startAgent(t *testing.T, supervised bool, script string) *agent {
	t.Helper()
	job := agentJob{
		Root: filepath.Join(t.TempDir(), "root"), LogDir: filepath.Join(t.TempDir(), "logs"),
		Script: script, Supervised: supervised,
	}
	data, err := json.Marshal(job)
	must(t, err)
	a := &agent{command: exec.Command(selfExecutable), root: job.Root, logs: job.LogDir}
	a.command.Env = append(os.Environ(), agentEnv+"="+string(data))
	a.command.Stderr = os.Stderr
	out, err := a.command.StdoutPipe()
	must(t, err)
	must(t, a.command.Start())
	_, err = fmt.Fscanln(out, &a.container)
	if err != nil {
		rest, _ := io.ReadAll(out)
		t.Fatalf("agent: %v %s", err, rest)
	}
	t.Cleanup(func() {
		a.kill(t)
		// A test that failed half-way may have left the container running.
		var started startedRecord
		if ok, _ := readRecord(filepath.Join(a.root, containersDir, a.container), startedFile, &started); ok {
			must(t, osproc.KillSession(started.Process))
		}
	})
	return a
}

// kill kills the agent with SIGKILL, and nothing else.
func (a *agent) kill(t *testing.T) {
	t.Helper()
	if a.command.ProcessState == nil {
		must(t, a.command.Process.Signal(unix.SIGKILL))
		_ = a.command.Wait() // "signal: killed"
	}
}
