package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// exec runs a command in a pod with some input.
func (a *testAgent) exec(input string, args ...string) (code int, stdout, stderr string) {
	a.t.Helper()
	var out, problems bytes.Buffer
	c := newCommandFor(&out)
	c.SetErr(&problems)
	c.SetIn(strings.NewReader(input))
	c.SetArgs(append([]string{"exec", "--listen", a.listen}, args...))
	err := c.ExecuteContext(context.WithoutCancel(a.t.Context()))
	if err != nil {
		problems.WriteString(err.Error())
	}
	return exitCode(err), out.String(), problems.String()
}

// TestExec: input and its end, both outputs, the exit code, a terminal; mistakes; what runs ends with its client and
// with the agent.
func TestExec(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	writeManifest(t, manifests, "web.yaml", pod("web", "host", "exec sleep 1000"))
	writeManifest(t, manifests, "over.yaml", pod("over", "host", "exit 0", "  restartPolicy: Never"))
	a := startAgent(t, "--manifests", manifests, "--root", t.TempDir(), "--drain")
	a.awaitPhase("web", v1.PodRunning)
	a.awaitPhase("over", v1.PodSucceeded)
	input := strings.Repeat("0123456789abcdef", 20000)
	if code, out, problems := a.exec(input, "web", "-i", "--", "sh", "-c", "cat; echo done >&2; exit 7"); code != 7 || out != input || problems != "done\n" {
		t.Errorf("code %d, %d bytes of %d, %q", code, len(out), len(input), problems)
	}
	if code, out, problems := a.exec("ignored", "web", "--", "cat"); code != 0 || out+problems != "" {
		t.Errorf("without -i: %d %q %q", code, out, problems)
	}
	if code, out, problems := a.exec("", "web", "-t", "--", "sh", "-c", "test -t 1 && echo it has one"); code != 0 || out != "it has one\r\n" {
		t.Errorf("with a terminal: %d %q %q", code, out, problems)
	}
	const none = "nodeagent: the input is no terminal, so the command gets none\n"
	if code, out, problems := a.exec("word", "web", "-i", "-t", "--", "sh", "-c", "test -t 0 || cat"); code != 0 || out != "word" || problems != none {
		t.Errorf("a pipe in place of a terminal: %d %q %q", code, out, problems)
	}
	if code, _, problems := a.exec(input, "web", "-i", "--", "true"); code != 0 || problems != "" {
		t.Errorf("a command that reads nothing: %d %q", code, problems)
	}
	for line, want := range map[string]string{
		"web":                 "then --, then a command",
		"web date":            "then --, then a command",
		"none -- date":        `there is no pod "none"`,
		"web -c none -- date": `no container "none"; it has main`,
		"over -- date":        "is not running; nodeagent explain says why",
		"web -- /no/such":     "/no/such",
	} {
		if code, out, problems := a.exec("", strings.Fields(line)...); code == 0 || out != "" || !strings.Contains(problems, want) {
			t.Errorf("%s: %d %q %q", line, code, out, problems)
		}
	}

	begun := filepath.Join(t.TempDir(), "begun")
	script := "echo $$ > " + begun + ".part; mv " + begun + ".part " + begun + "; exec sleep 1000"
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		c := newCommandFor(&lockedBuffer{})
		c.SetArgs([]string{"exec", "web", "--listen", a.listen, "--", "sh", "-c", script})
		ended <- c.ExecuteContext(ctx)
	}()
	var process int
	await(t, "the command to begin", func() error {
		text, err := os.ReadFile(begun)
		if err == nil {
			process, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err
	})
	leave()
	if err := <-ended; exitCode(err) != 1 {
		t.Errorf("a client that leaves: %v", err)
	}
	await(t, "the command to end with its client", func() error {
		if err := syscall.Kill(process, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("it runs: %v", err)
		}
		return nil
	})

	last := make(chan string, 1)
	go func() {
		_, _, problems := a.exec("", "web", "--", "sh", "-c", "rm "+begun+"; exec sleep 1000")
		last <- problems
	}()
	await(t, "the last command", func() error {
		if _, err := os.Stat(begun); err == nil {
			return errors.New("it has not begun")
		}
		return nil
	})
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := <-last; got == "" {
		t.Error("the command ended well with its agent")
	}
}

// TestExecOutlivesItsAgent: if the agent ends or is killed, the command's own end is not known, which has another code than a
// command that fails.
func TestExecOutlivesItsAgent(t *testing.T) {
	t.Parallel()
	manifests, begun := t.TempDir(), filepath.Join(t.TempDir(), "begun")
	writeManifest(t, manifests, "web.yaml", pod("web", "host", "exec sleep 1000"))
	args := []string{"--manifests", manifests, "--root", t.TempDir()}
	drainAtEnd(t, args...)
	for what, end := range map[string]func(a *testAgent){
		"ends":      func(a *testAgent) { a.terminate() },
		"is killed": func(a *testAgent) { a.kill() },
	} {
		a := startAgent(t, args...)
		a.awaitPhase("web", v1.PodRunning)
		wrong := make(chan error, 1)
		go func() {
			code, out, problems := a.exec("", "web", "--", "sh", "-c", "touch "+begun+"; exec sleep 1000")
			if code == codeUnreachable && strings.Contains(problems, "has ended") && strings.Contains(problems, "how the command ended is not known") {
				close(wrong)
				return
			}
			wrong <- fmt.Errorf("code %d, %q %q", code, out, problems)
		}()
		await(t, "the command to begin", func() error { _, err := os.Stat(begun); return err })
		end(a)
		if err := <-wrong; err != nil {
			t.Errorf("an agent that %s: %v", what, err)
		}
		remove(t, begun)
	}
}
