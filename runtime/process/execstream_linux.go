package process

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// endOfInput is what a user types to end the input of a terminal.
const endOfInput = 4

// ExecStream implements [cri.DirectStreamer]: it runs cmd as ExecSync does, connected to the
// ends of streams. Its output is not bounded: a command whose output is not read waits.
func (r *Runtime) ExecStream(ctx context.Context, containerID string, cmd []string, streams cri.Streams) error {
	leave, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := r.execStream(ctx, containerID, cmd, streams); err != nil {
		return fmt.Errorf("exec in container %s: %w", containerID, err)
	}
	return nil
}

func (r *Runtime) execStream(ctx context.Context, id string, cmd []string, streams cri.Streams) error {
	c := r.container(id)
	if c == nil {
		return containerNotFound(id)
	}
	if len(cmd) == 0 || cmd[0] == "" {
		return fmt.Errorf("no command: %w", runtime.ErrInvalid)
	}
	u, err := r.hold(c)
	if err != nil {
		return err
	}
	if u == nil || u.process == nil {
		return notRunning(id)
	}
	files, err := streamFiles(&c.record, &streams)
	if err != nil {
		return err
	}
	j, err := r.startJob(c, u, cmd, files)
	if err != nil {
		return err
	}
	if files.input != nil {
		if !files.terminal {
			defer files.input.Close()
		}
		if streams.Stdin != nil {
			// It ends with the input, or when it writes after the command's end. The caller's
			// Read cannot be interrupted.
			go copyInput(files, streams.Stdin)
		}
	}
	return r.awaitStream(ctx, c, j, files, streams.Resize)
}

// streamFiles makes what connects a command to the ends of streams.
func streamFiles(record *containerRecord, streams *cri.Streams) (*jobFiles, error) {
	written := func(w io.Writer) io.Writer {
		if w == nil {
			return io.Discard
		}
		return w
	}
	if streams.TTY {
		return terminalFiles(record, written(streams.Stdout))
	}
	return pipeFiles(record, streams.Stdin != nil, written(streams.Stdout), written(streams.Stderr))
}

// copyInput copies the input to a command, and then ends it.
func copyInput(files *jobFiles, from io.Reader) {
	_, err := io.Copy(files.input, from)
	if !files.terminal {
		_ = files.input.Close()
	} else if err == nil {
		_, _ = files.input.Write([]byte{endOfInput})
	}
}

// awaitStream waits for the command's end, or ends it.
func (r *Runtime) awaitStream(ctx context.Context, c *container, j *job, files *jobFiles, sizes <-chan cri.TerminalSize) error {
	for {
		select {
		case <-j.ended:
			return j.finish()
		case size, ok := <-sizes:
			if !ok {
				sizes = nil
			} else if files.terminal {
				if err := resize(files.input, size.Width, size.Height); err != nil {
					r.log.V(1).Info("A terminal keeps its size", "container", c.record.ID, "error", err.Error())
				}
			}
		case <-ctx.Done():
			r.abort(j)
			return ctxError(ctx)
		case <-c.exited:
			r.abort(j)
			return errContainerEnded()
		case <-r.closing:
			r.abort(j)
			return errClosed()
		}
	}
}

// errNoAttach: a container's output goes to its log, and it has no input.
var errNoAttach = errors.New("the process runtime cannot attach to containers: their output goes only to the log, and they have no input; use logs or exec")

// AttachStream implements [cri.DirectStreamer]. It fails: see logs and ExecStream.
func (r *Runtime) AttachStream(_ context.Context, containerID string, _ cri.Streams) error {
	return fmt.Errorf("attach to container %s: %w: %w", containerID, errNoAttach, runtime.ErrUnimplemented)
}
