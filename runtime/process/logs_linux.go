package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ReopenContainerLog opens the log file of a running container by its name again,
// after a rotation. On error no new file exists and the old one is still written.
func (r *Runtime) ReopenContainerLog(ctx context.Context, containerID string) error {
	leave, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	c := r.container(containerID)
	if c == nil {
		return containerNotFound(containerID)
	}
	r.mu.Lock()
	u, running := c.run, c.state == runtimeapi.ContainerState_CONTAINER_RUNNING
	r.mu.Unlock()
	switch {
	case !running || u == nil:
		return notRunning(containerID)
	case u.supervisor != nil:
		err = askSupervisor(ctx, c.dir, controlReopen)
	case u.output == nil:
		err = errors.New("nothing writes it yet, as the output of the container cannot be read")
	default:
		err = u.output.reopen()
	}
	if err != nil {
		return fmt.Errorf("reopen the log of container %s: %w", containerID, err)
	}
	return nil
}

// askSupervisor sends one request to the supervisor of the container in dir.
func askSupervisor(ctx context.Context, dir, request string) error {
	var conn net.Conn
	err := inDir(dir, func(short string) (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(short, controlFile))
		return err
	})
	if err != nil {
		return fmt.Errorf("reach the supervisor: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := fmt.Fprintln(conn, request); err != nil {
		return fmt.Errorf("ask the supervisor: %w", err)
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	switch answer = strings.TrimSpace(answer); {
	case ctx.Err() != nil:
		return ctxError(ctx)
	case err != nil:
		return fmt.Errorf("answer of the supervisor: %w", err)
	case answer != controlOK:
		return fmt.Errorf("supervisor: %s", answer)
	}
	return nil
}
