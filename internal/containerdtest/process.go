package containerdtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

// process is one run of the daemon.
type process struct {
	command *exec.Cmd
	log     string
	// ended is closed when the process is gone and reaped.
	ended chan struct{}
}

// startProcess starts containerd. Its output is appended to the log file.
func startProcess(t *tools, l layout) (*process, error) {
	log, err := os.OpenFile(l.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p := &process{
		command: exec.Command(t.containerd, "--config", l.config()),
		log:     l.log(),
		ended:   make(chan struct{}),
	}
	if t.programs != "" {
		// The daemon looks up its shim in PATH.
		p.command.Env = append(os.Environ(), "PATH="+t.programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	// A file, not a pipe: shims inherit it and outlive the daemon.
	p.command.Stdout, p.command.Stderr = log, log
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	go func() {
		defer close(p.ended)
		_ = p.command.Wait()
	}()
	return p, nil
}

// waitReady returns when the runtime is ready to run pods, or says why it will
// not be.
func (p *process) waitReady(ctx context.Context, endpoint string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	defer func() { <-watched }()
	probed := make(chan struct{})
	defer close(probed)
	go func() {
		defer close(watched)
		select {
		case <-p.ended:
			cancel(errors.New("containerd exited"))
		case <-probed:
		}
	}()
	if err := probe(ctx, endpoint); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w (%v)", cause, err)
		}
		return fmt.Errorf("containerd did not become ready: %w; end of its log:\n%s", err, p.logTail())
	}
	return nil
}

// logTail returns the end of the log for an error message.
func (p *process) logTail() string {
	const limit = 4096
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	if len(content) > limit {
		content = content[len(content)-limit:]
	}
	return string(content)
}

// kill ends the daemon with SIGKILL.
func (p *process) kill() error { return p.signal(syscall.SIGKILL) }

// stop ends the daemon in an orderly way; a daemon that has already ended is fine.
func (p *process) stop() error { return p.signal(syscall.SIGTERM) }

// signal sends a signal, waits for the process to end and finally kills it.
func (p *process) signal(s syscall.Signal) error {
	if err := p.command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal containerd: %w", err)
	}
	timer := clock.RealClock{}.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C():
	}
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill containerd: %w", err)
	}
	<-p.ended
	return nil
}

// running reports whether the process has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// dial connects to a CRI socket. It retries quickly, because usually the daemon is just starting.
func dial(endpoint string) (*grpc.ClientConn, error) {
	return grpc.NewClient(endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}))
}

// probe waits until the runtime says that it and its network are ready. Runtimes also report other
// conditions, such as the use of deprecated features, which do not keep pods from running.
func probe(ctx context.Context, endpoint string) error {
	conn, err := dial(endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	return poll(ctx, func() (bool, error) {
		response, err := client.Status(ctx, &runtimeapi.StatusRequest{})
		if err != nil {
			return false, err
		}
		var notReady []string
		for _, c := range response.GetStatus().GetConditions() {
			required := c.GetType() == runtimeapi.RuntimeReady || c.GetType() == runtimeapi.NetworkReady
			if required && !c.GetStatus() {
				notReady = append(notReady, fmt.Sprintf("%s: %s %s", c.GetType(), c.GetReason(), c.GetMessage()))
			}
		}
		if len(notReady) > 0 {
			return false, errors.New(strings.Join(notReady, "; "))
		}
		return true, nil
	})
}

// poll calls done until it returns true. When ctx ends first, poll returns the last error of done,
// or that of the context.
func poll(ctx context.Context, done func() (bool, error)) error {
	ticker := clock.RealClock{}.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for {
		ok, err := done()
		if ok {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if last == nil {
				last = context.Cause(ctx)
			}
			return last
		case <-ticker.C():
		}
	}
}

// run runs a program and returns its standard output. The error includes the standard error output.
func run(ctx context.Context, program string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// buildPause compiles the pause binary. The flags of the surrounding test run (the race detector
// needs cgo) must not apply to it.
func buildPause(ctx context.Context, goTool, output string) error {
	command := exec.CommandContext(ctx, goTool, "build", "-trimpath", "-ldflags=-s -w", "-o", output, pausePackage)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS=linux")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build the pause binary: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// listApplets asks busybox for its applets.
func listApplets(ctx context.Context, busybox string) ([]string, error) {
	out, err := run(ctx, busybox, "--list")
	if err != nil {
		return nil, err
	}
	return strings.Fields(out), nil
}
