package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/expand"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// execHandler runs a command in the container (5.2).
type execHandler struct{ runtime Executor }

// Probe runs the command. The probe fails if the command exits with a code other than 0, or not in
// time; any other error of the runtime says nothing about the container.
func (h execHandler) Probe(ctx context.Context, t Target) (Outcome, error) {
	cmd, err := command(t)
	if err != nil {
		return Outcome{}, err
	}
	stdout, stderr, err := h.runtime.ExecSync(ctx, t.ID.ID, cmd, wholeSeconds(t.Timeout))
	output := joined(stdout, stderr)
	var exit interface{ ExitStatus() int }
	switch {
	case err == nil:
		return Outcome{Result: Success, Output: output}, nil
	case errors.As(err, &exit):
		if exit.ExitStatus() == 0 {
			return Outcome{Result: Success, Output: output}, nil
		}
		return failed("exit code %d: %s", exit.ExitStatus(), output), nil
	case ctx.Err() == nil && cri.Class(err) == runtime.ErrDeadline:
		return failed("command did not end within %v", t.Timeout), nil
	}
	return Outcome{}, err
}

// wholeSeconds rounds up, since CRI takes seconds: 0 would mean no limit.
func wholeSeconds(d time.Duration) time.Duration {
	return max((d+time.Second-1)/time.Second, 1) * time.Second
}

// command expands references to variables whose value is written in the spec.
func command(t Target) ([]string, error) {
	lookup := func(name string) (value string, ok bool) {
		for i := range t.Container.Env {
			if v := &t.Container.Env[i]; v.Name == name && literal(v) {
				value, ok = v.Value, true // the last one wins
			}
		}
		return value, ok
	}
	out := make([]string, len(t.Probe.Exec.Command))
	for i, element := range t.Probe.Exec.Command {
		var err error
		if out[i], err = expand.Text(element, lookup); err != nil {
			return nil, fmt.Errorf("command[%d]: %w", i, err)
		}
	}
	return out, nil
}

func literal(v *v1.EnvVar) bool { return v.ValueFrom == nil }

// joined returns stdout followed by stderr, cut to the limit.
func joined(stdout, stderr []byte) string {
	var b strings.Builder
	b.Write(stdout[:min(len(stdout), maxOutput)])
	b.Write(stderr[:min(len(stderr), maxOutput-b.Len())])
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}
