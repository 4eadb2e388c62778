package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podwright/podwright/runonce"
	"github.com/podwright/podwright/runtime/process"
)

// once runs "nodeagent --run-once" to its end.
func once(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd, out, logs := onceCommand(t, args...)
	_ = cmd.Run() // the exit code says it
	return cmd.ProcessState.ExitCode(), out.String(), logs.String()
}

func onceCommand(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--run-once", "--node-name", "n1", "--eviction-hard", "", "--listen", "unix:" + shortDir(t) + "/s"}, args...)
	if os.Geteuid() == 0 && !strings.Contains(strings.Join(args, " "), "--runtime ") {
		args = append([]string{"--process-as-root"}, args...)
	}
	cmd = exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asAgent+"=1")
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// reportOf decodes what --run-once-output json printed.
func reportOf(t *testing.T, text string) runonce.Report {
	t.Helper()
	var r runonce.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return r
}

// rows are the lines of a table, with one space between the columns.
func rows(text string) (out []string) {
	for line := range strings.Lines(text) {
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return out
}

// RO1-RO5: jobs and a server run once; the exit code and the table say what became of them; the
// next run does nothing again.
func TestRunOnce(t *testing.T) {
	t.Parallel()
	manifests, marks := t.TempDir(), t.TempDir()
	args := []string{"--manifests", manifests, "--root", t.TempDir(), "--run-once-min-ready", "1s"}
	drainAtEnd(t, args[:4]...)
	code, out, logs := once(t, args...)
	if code != 0 || !strings.Contains(out, "(no pods)") {
		t.Errorf("no pods: code %d, %q\n%s", code, out, logs)
	}
	writeManifest(t, manifests, "job.yaml", pod("job", "host", "echo ran >> "+marks+"/job", "  restartPolicy: Never"))
	writeManifest(t, manifests, "server.yaml", pod("server", "host", "exec sleep 1000"))
	for range 2 {
		code, out, logs = once(t, args...)
		if got, want := strings.Join(rows(out), "\n"), "NAMESPACE NAME OUTCOME EXIT RESTARTS REASON\ndefault job-n1 Succeeded 0 0\ndefault server-n1 Running - 0"; code != 0 || got != want {
			t.Errorf("code %d\n%s\nwant\n%s\n%s", code, got, want, logs)
		}
	}
	if text, err := os.ReadFile(marks + "/job"); err != nil || string(text) != "ran\n" {
		t.Errorf("the job wrote %q in two runs: %v", text, err)
	}
	writeManifest(t, manifests, "bad.yaml", pod("bad", "host", "exit 7", "  restartPolicy: Never"))
	writeManifest(t, manifests, "broken.yaml", "kind: [")
	code, out, logs = once(t, append(args, "--run-once-output", "json", "--drain")...)
	report := reportOf(t, out)
	if code != 1 || len(report.Pods) != 3 || report.Pods[0].Outcome != runonce.Failed || *report.Pods[0].Containers[0].ExitCode != 7 {
		t.Errorf("code %d, %s\n%s", code, out, logs)
	}
	if !strings.Contains(fmt.Sprint(report.Problems), "broken.yaml") { // its own, or that of the source that waits for it
		t.Errorf("problems %+v", report.Problems)
	}
}

// RO4: a run that takes too long, and one that is told to end, end with code 1 and a report.
func TestRunOnceEndsEarly(t *testing.T) {
	t.Parallel()
	manifests, mark := t.TempDir(), filepath.Join(t.TempDir(), "runs")
	args := []string{"--manifests", manifests, "--root", t.TempDir(), "--drain"}
	writeManifest(t, manifests, "long.yaml", pod("long", "host", "touch "+mark+"; exec sleep 1000", "  restartPolicy: Never", "  terminationGracePeriodSeconds: 1"))
	code, out, logs := once(t, append(args, "--run-once-limit", "2s")...)
	remove(t, mark)
	if code != 1 || !strings.Contains(out, "Unfinished") || !strings.Contains(logs, "the time limit of the run is up: it was 2s") {
		t.Errorf("code %d\n%s\n%s", code, out, logs)
	}
	cmd, stdout, stderr := onceCommand(t, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the pod to run", func() error {
		_, err := os.Stat(mark)
		return err
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code says it
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(stdout.String(), "long-n1") {
		t.Errorf("SIGTERM: code %d\n%s\n%s", code, stdout, stderr)
	}
}

// RO3: a run that is killed is continued by the next one, and the job runs once.
func TestRunOnceAfterKill(t *testing.T) {
	t.Parallel()
	manifests, mark := t.TempDir(), filepath.Join(t.TempDir(), "runs")
	args := []string{"--manifests", manifests, "--root", t.TempDir()}
	writeManifest(t, manifests, "job.yaml", pod("job", "host", "echo ran >> "+mark+"; while [ ! -e "+mark+".end ]; do sleep 0.02; done; exit 0", "  restartPolicy: Never"))
	cmd, _, _ := onceCommand(t, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the job to run", func() error {
		_, err := os.Stat(mark)
		return err
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if err := os.WriteFile(mark+".end", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, logs := once(t, args...)
	if code != 0 || !strings.Contains(out, "Succeeded") {
		t.Errorf("code %d\n%s\n%s", code, out, logs)
	}
	if text, err := os.ReadFile(mark); err != nil || string(text) != "ran\n" {
		t.Errorf("the job wrote %q: %v", text, err)
	}
}

// RO5: flags that make no sense end with code 2.
func TestRunOnceFlags(t *testing.T) {
	for _, bad := range [][]string{
		{"--run-once", "--run-once-limit", "-1s"},
		{"--run-once", "--run-once-restarts", "0"},
		{"--run-once", "--run-once-output", "xml"},
		{"--run-once-limit", "1m"},
	} {
		var stderr bytes.Buffer
		code := run(append([]string{"--manifests", t.TempDir(), "--root", t.TempDir()}, bad...), process.Supervisor{}, io.Discard, &stderr)
		if code != 2 || !strings.Contains(stderr.String(), "--run-once") {
			t.Errorf("%q: code %d, %s", bad, code, stderr.String())
		}
	}
}
