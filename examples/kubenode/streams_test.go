//go:build apiserver && containerd

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// sessions is how many exec sessions TestContainerdAPIServerWorkloads has open at a time.
var sessions = flag.Int("sessions", 40, "exec sessions at a time")

const streaming = `
apiVersion: v1
kind: Pod
metadata: {name: streams, labels: {app: streams}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: echo, image: IMAGE, stdin: true, command: [sh, -c, "while read x; do echo got $x; done; sleep 1000"]}
  - {name: shell, image: IMAGE, stdin: true, tty: true, command: [sh]}
  - {name: web, image: IMAGE, command: [sh, -c, "mkdir /www; head -c 5000000 /dev/urandom >/www/big; exec httpd -f -p 8080 -h /www"]}
  - name: counter
    image: IMAGE
    command: [sh, -c, "i=0; while :; do i=$((i+1)); echo line $i of a log that is rotated while it is read; [ $((i%50)) != 0 ] || sleep 0.1; done"]
`

// protocols are what kubectl is told to speak.
var protocols = map[string][]string{
	"WebSocket": nil,
	"SPDY":      {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"},
}

// streams: attach, exec and port-forward by kubectl, over both protocols (KH4, KH5), logs over
// rotations (KH3), and many sessions at once (KH9).
func (c *cluster) streams(t *testing.T) {
	c.apply(streaming)
	c.until("the pod of the streams", time.Minute, c.ready("app=streams", 1))
	follower, stop := c.follow("streams", "counter")
	defer stop()
	for name, env := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Run("exec -i", func(t *testing.T) { c.execs(t, env) })
			t.Run("attach -i", func(t *testing.T) { c.attaches(t, env) })
			t.Run("terminal", func(t *testing.T) { c.terminals(t, env) })
			t.Run("port-forward", func(t *testing.T) { c.forwards(t, env) })
		})
	}
	t.Run("sessions", c.manySessions)
	t.Run("logs", func(t *testing.T) { c.rotates(t, follower, stop) })
	c.kubectl("delete", "pod", "streams", "--grace-period=1")
}

// command is kubectl as a program of its own.
func (c *cluster) command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, c.api.Program("kubectl"), append([]string{"--kubeconfig=" + c.admin}, args...)...)
	command.Env = append(os.Environ(), env...)
	return command
}

// execs: 3 MB go in and out, the end of stdin alone arrives, and so does the exit code.
func (c *cluster) execs(t *testing.T, env []string) {
	input := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	var stderr bytes.Buffer
	command := c.command(t.Context(), env, "exec", "-i", "streams", "-c", "web", "--", "sh", "-c", "cat; echo done >&2; exit 5")
	command.Stdin, command.Stderr = bytes.NewReader(input), &stderr
	out, err := command.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 5 || !bytes.Equal(out, input) || !strings.HasPrefix(stderr.String(), "done\n") {
		t.Errorf("%d bytes of %d, %v, %s", len(out), len(input), err, stderr.String())
	}
}

// attaches: what is typed reaches the container, and what it prints comes back.
func (c *cluster) attaches(t *testing.T, env []string) {
	in, typed := io.Pipe()
	command := c.command(t.Context(), env, "attach", "-i", "streams", "-c", "echo")
	out := &output{}
	command.Stdin, command.Stdout = in, out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"one", "two"} {
		c.until("the container gets "+word, 20*time.Second, func() error {
			if strings.Contains(out.String(), "got "+word) {
				return nil
			}
			_, err := io.WriteString(typed, word+"\n")
			return errors.Join(err, fmt.Errorf("%q", out.String()))
		})
	}
	_ = typed.Close()
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
}

// terminals: an exec and an attach with a terminal, whose sizes arrive.
func (c *cluster) terminals(t *testing.T, env []string) {
	for name, args := range map[string][]string{
		"exec":   {"exec", "-it", "streams", "-c", "web", "--", "sh"},
		"attach": {"attach", "-it", "streams", "-c", "shell"},
	} {
		term, inner := terminal(t)
		resize(t, term, 40, 100)
		ctx, cancel := context.WithCancel(t.Context())
		command := c.command(ctx, env, args...)
		command.Stdin, command.Stdout, command.Stderr = inner, inner, inner
		command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		_ = inner.Close()
		out, read := &output{}, make(chan struct{})
		go func() { defer close(read); _, _ = io.Copy(out, term) }()
		for _, size := range [][2]int{{40, 100}, {50, 132}} {
			resize(t, term, size[0], size[1])
			c.until(fmt.Sprint(name, " has size ", size), 20*time.Second, func() error {
				if strings.Contains(out.String(), fmt.Sprintf("%d %d\r\n", size[0], size[1])) {
					return nil
				}
				_, err := io.WriteString(term, "stty size\n")
				return errors.Join(err, fmt.Errorf("%q", out.String()))
			})
		}
		if name == "exec" {
			_, _ = io.WriteString(term, "exit 6\n")
			var exit *exec.ExitError
			if err := command.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 6 {
				t.Errorf("exec: %v, want exit code 6", err)
			}
		} else {
			cancel() // the container's shell goes on
			_ = command.Wait()
		}
		cancel()
		_ = term.Close()
		<-read
	}
}

// forwards: several connections at once carry a large body each.
func (c *cluster) forwards(t *testing.T, env []string) {
	command := c.command(t.Context(), env, "port-forward", "pod/streams", "0:8080")
	out := &output{}
	command.Stdout = out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = command.Process.Kill(); _ = command.Wait() }()
	address := ""
	c.until("a port is forwarded", 20*time.Second, func() error {
		if found := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(out.String()); found != "" {
			address = found
			return nil
		}
		return fmt.Errorf("%q", out.String())
	})
	want := strings.Fields(c.kubectl("exec", "streams", "-c", "web", "--", "sha256sum", "/www/big"))[0]
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			response, err := client.Get("http://" + address + "/big")
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = response.Body.Close() }()
			sum := sha256.New()
			if n, err := io.Copy(sum, response.Body); err != nil || fmt.Sprintf("%x", sum.Sum(nil)) != want {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	all.Wait()
}

// manySessions: many exec sessions at once, and a client that never reads, do not keep a new pod
// from starting; each ends with its own exit code.
func (c *cluster) manySessions(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	hold, typed := io.Pipe() // this one does not read what it is sent
	all.Go(func() {
		_ = c.session(ctx, []string{"sh", "-c", "yes"}, nil, typed)
	})
	began, opened := time.Now(), make(chan struct{}, *sessions)
	for i := range *sessions {
		all.Go(func() {
			in, end := io.Pipe()
			said := sync.OnceFunc(func() { opened <- struct{}{}; go func() { <-ctx.Done(); _ = end.Close() }() })
			err := c.session(t.Context(), []string{"sh", "-c", fmt.Sprintf("echo ready; cat; exit %d", i%100+1)}, in,
				writer(func(p []byte) (int, error) { said(); return len(p), nil }))
			said()
			if want := fmt.Sprint("exit code ", i%100+1); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("session %d: %v, want %s", i, err, want)
			}
		})
	}
	for range *sessions {
		<-opened
	}
	t.Logf("%d sessions are open after %s", *sessions, time.Since(began).Round(time.Millisecond))
	c.kubectl("run", "beside", "--image="+c.runtime.Image, "--labels=app=beside", "--", "sleep", "1000")
	c.until("a new pod beside them is Ready", time.Minute, c.ready("app=beside", 1))
	cancel()
	_ = hold.Close()
	all.Wait()
	c.kubectl("delete", "pod", "beside", "--grace-period=1")
}

// session runs a command in container web.
func (c *cluster) session(ctx context.Context, command []string, stdin io.Reader, stdout io.Writer) error {
	request := c.operator.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("streams").SubResource("exec").
		VersionedParams(&v1.PodExecOptions{Container: "web", Command: command, Stdin: stdin != nil, Stdout: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(c.api.Admin(), "GET", request.URL().String())
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout})
}

// follow follows a container's log, with timestamps, until stop is called.
func (c *cluster) follow(pod, container string) (out *output, stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	command := c.command(ctx, nil, "logs", "-f", "--timestamps", pod, "-c", container)
	out = &output{}
	command.Stdout = out
	if err := command.Start(); err != nil {
		c.t.Fatal(err)
	}
	return out, sync.OnceFunc(func() { cancel(); _ = command.Wait() })
}

// rotates: who follows a log gets each line once, in order, over at least two rotations; --since
// and --tail show its end.
func (c *cluster) rotates(t *testing.T, followed *output, stop func()) {
	c.until("the log was rotated twice", time.Minute, func() error {
		names, err := filepath.Glob(filepath.Join(c.root, "logs", "default_streams_*", "counter", "*"))
		if len(names) < 3 {
			return fmt.Errorf("%v, %v", names, err)
		}
		return nil
	})
	stop()
	lines := strings.Split(followed.String(), "\n")
	lines = lines[:len(lines)-1] // the last one may be cut
	for i, line := range lines {
		stamp, text, _ := strings.Cut(line, " ")
		if _, err := time.Parse(time.RFC3339Nano, stamp); err != nil || !strings.HasPrefix(text, "line "+strconv.Itoa(i+1)+" ") {
			t.Fatalf("line %d of %d is %q", i+1, len(lines), line)
		}
	}
	t.Logf("%d lines, each once", len(lines))
	if recent := c.kubectl("logs", "streams", "-c", "counter", "--since=2s", "--limit-bytes=100"); len(recent) != 100 || !strings.HasPrefix(recent, "line ") {
		t.Errorf("logs --since --limit-bytes: %q", recent)
	}
}

// output is what a program has printed so far.
type output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

// terminal opens a new terminal: what a person would sit at, and what a program gets.
func terminal(t *testing.T) (outer, inner *os.File) {
	t.Helper()
	outer, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(outer.Fd()), unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(int(outer.Fd()), unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	inner, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return outer, inner
}

func resize(t *testing.T, terminal *os.File, rows, columns int) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
}
