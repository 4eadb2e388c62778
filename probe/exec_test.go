package probe_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
)

// shell is a runtime whose commands do what the test says.
type shell func(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error)

func (s shell) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	return s(ctx, id, cmd, timeout)
}

func execProbe(p *v1.Probe) {
	p.TCPSocket, p.Exec, p.FailureThreshold = nil, &v1.ExecAction{Command: []string{"check", "$(A)/$(B)/$(C)", "$$(A)"}}, 1
}

// TestExecFollowsTheExitCode is 5.2.
func TestExecFollowsTheExitCode(t *testing.T) {
	for _, c := range []struct {
		name   string
		shell  shell
		runs   int
		result string
		output string
	}{
		{"exit 0", func(context.Context, string, []string, time.Duration) ([]byte, []byte, error) {
			return []byte("out "), []byte("err"), nil
		}, 1, "Success", "out err"},
		{"exit 3", func(context.Context, string, []string, time.Duration) ([]byte, []byte, error) {
			return []byte("out "), []byte("err"), &runtime.ExitError{Code: 3}
		}, 1, "Failure", "exit code 3: out err"},
		{"edge case 18: the runtime's timeout", func(context.Context, string, []string, time.Duration) ([]byte, []byte, error) {
			return nil, nil, fmt.Errorf("exec: %w", runtime.ErrDeadline)
		}, 1, "Failure", "did not end within 1s"},
		{"edge case 18: a runtime that does not keep its timeout", func(ctx context.Context, _ string, _ []string, _ time.Duration) ([]byte, []byte, error) {
			<-ctx.Done()
			return nil, nil, ctx.Err()
		}, 1, "Failure", "no answer within 1s"},
		{"edge case 19: connection lost", func(context.Context, string, []string, time.Duration) ([]byte, []byte, error) {
			return nil, nil, runtime.ErrUnavailable
		}, 3, "", "runtime unavailable"},
	} {
		bubble(t, "5.2 "+c.name, func(t *testing.T) {
			runs := 0
			r := newRig(t, func(o *probe.Options) {
				o.Handler = nil
				o.Runtime = shell(func(ctx context.Context, id string, cmd []string, timeout time.Duration) ([]byte, []byte, error) {
					runs++
					// valueFrom and what stands nowhere are not expanded, values once.
					if want := []string{"check", "1/$(A)/$(C)", "$(A)"}; id != "1" || !slices.Equal(cmd, want) || timeout != time.Second {
						t.Errorf("%s runs %q for %v", id, cmd, timeout)
					}
					return c.shell(ctx, id, cmd, timeout)
				})
			}).start()
			p := newPod("a", readiness(execProbe))
			p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)"}, {Name: "C", ValueFrom: &v1.EnvVarSource{}}}
			r.publish(p, up("1", true, time.Now()))
			r.m.AddPod(p)
			r.pass(1600 * time.Millisecond)
			e := r.m.Explain(p.UID)[0]
			if e.LastResult != c.result || !strings.Contains(e.LastOutput, c.output) || runs != c.runs {
				t.Errorf("%d runs: %+v", runs, e)
			}
		})
	}
	bubble(t, "edge case 17: 10240 bytes are kept, stdout first", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) {
			o.Handler = nil
			o.Runtime = shell(func(context.Context, string, []string, time.Duration) ([]byte, []byte, error) {
				return []byte(strings.Repeat("o", 9000)), []byte(strings.Repeat("e", 1<<20)), &runtime.ExitError{Code: 1}
			})
		}).start()
		p := newPod("a", readiness(execProbe))
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(0)
		said := r.said()
		if len(said) != 1 || strings.Count(said[0], "o") < 9000 || len(said[0]) > 10240+200 || !strings.HasSuffix(said[0], strings.Repeat("e", 1240)) {
			t.Errorf("%d events, %d bytes", len(said), len(said[0]))
		}
		if e := r.m.Explain(p.UID)[0]; len(e.LastOutput) > 256 {
			t.Errorf("%d bytes are kept", len(e.LastOutput))
		}
	})
	bubble(t, "5.2: timeouts are whole seconds, rounded up; a shorter one cancels the call", func(t *testing.T) {
		var given time.Duration
		r := newRig(t, func(o *probe.Options) {
			o.Handler, o.SubSecondExec = nil, true
			o.Timing = func(*v1.Pod, string, probe.Kind, probe.Timing) (probe.Timing, bool) {
				return probe.Timing{Period: time.Hour, Timeout: 1500 * time.Millisecond}, true
			}
			o.Runtime = shell(func(ctx context.Context, _ string, _ []string, timeout time.Duration) ([]byte, []byte, error) {
				given = timeout
				<-ctx.Done()
				return nil, nil, context.Cause(ctx)
			})
		}).start()
		p := newPod("a", readiness(execProbe))
		begin := time.Now()
		r.publish(p, up("1", true, begin))
		r.m.AddPod(p)
		r.pass(1499 * time.Millisecond)
		if e := r.m.Explain(p.UID)[0]; e.State != "running" {
			t.Errorf("%+v", e)
		}
		r.pass(2 * time.Millisecond)
		if e := r.m.Explain(p.UID)[0]; given != 2*time.Second || e.LastResult != "Failure" {
			t.Errorf("given %v: %+v", given, e)
		}
	})
	bubble(t, "5.12: no handler, and no runtime", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) { o.Handler = nil }).start()
		p := newPod("a", readiness(func(p *v1.Probe) { p.TCPSocket = nil }), liveness(execProbe))
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(0)
		said := strings.Join(r.said(), "\n")
		if !strings.Contains(said, "none of exec, httpGet") || !strings.Contains(said, "no runtime is configured") {
			t.Errorf("said %s", said)
		}
	})
	bubble(t, "the pod or the container goes between the look and the run", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) { o.NetworkSlots = 1 }).start()
		r.does(slow(time.Second))
		a, b := newPod("a", readiness()), newPod("b", readiness())
		r.publish(a, up("1", true, time.Now()))
		r.publish(b, up("2", true, time.Now()))
		r.m.AddPod(a)
		r.m.AddPod(b)
		r.pass(300 * time.Millisecond)
		r.mu.Lock()
		delete(r.views, b.UID)
		r.mu.Unlock()
		r.pass(time.Second)
		if e := r.m.Explain(b.UID)[0]; e.LastOutput != "the pod is gone" || e.LastResult != "" {
			t.Errorf("%+v", e)
		}
	})
}
