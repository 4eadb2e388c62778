package enginetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
)

// direct is a runtime that serves streams itself: commands print their own arguments and end with 3.
type direct struct{ *fake.Runtime }

// Exec and the others hide the stream server of the fake.
func (direct) Exec()        {}
func (direct) Attach()      {}
func (direct) PortForward() {}

func (direct) ForwardPort(ctx context.Context, sandbox string, port int32, conn io.ReadWriter) error {
	if port == 81 {
		return fmt.Errorf("nothing listens there: %w", runtime.ErrFailedPrecondition)
	}
	fmt.Fprintf(conn, "port %d of a sandbox: %t", port, sandbox != "")
	return nil
}

type exited int

func (e exited) Error() string   { return fmt.Sprintf("exit %d", int(e)) }
func (e exited) ExitStatus() int { return int(e) }

func (direct) ExecStream(ctx context.Context, id string, cmd []string, ends cri.Streams) error {
	if cmd[0] == "sleep" {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	fmt.Fprintln(ends.Stdout, cmd)
	return exited(3)
}

func (direct) AttachStream(_ context.Context, _ string, ends cri.Streams) error {
	fmt.Fprintln(ends.Stdout, "attached")
	return nil
}

// TestStreams: OC3: commands, connections and ports of running containers, with a runtime that serves streams itself, one
// with a server, and one without streams; and the reason if there are none.
func TestStreams(t *testing.T) {
	for name, test := range map[string]struct {
		url  string
		wrap func(*fake.Runtime) cri.RuntimeService
		want [3]string // of exec, attach, port-forward
	}{
		"served here": {
			wrap: func(rt *fake.Runtime) cri.RuntimeService { return direct{rt} },
			want: [3]string{"[ls -l]\nexit 3", "attached\n", "port 80 of a sandbox: true"},
		},
		"a server": {
			url:  "http://127.0.0.1:1234",
			want: [3]string{"http://127.0.0.1:1234/exec/", "http://127.0.0.1:1234/attach/", "http://127.0.0.1:1234/portforward/"},
		},
		"no streams": {want: [3]string{"not implemented", "not implemented", "not implemented"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := fake.New(fake.Options{StreamURL: test.url})
				r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
					if test.wrap != nil {
						c.Runtime = test.wrap(rt)
					}
				}).start()
				web, done := newPod("web"), newPod("done")
				r.set(web, done)
				r.phase(web.UID, v1.PodRunning, time.Minute)
				r.phase(done.UID, v1.PodRunning, time.Minute)
				r.set(web)
				var out bytes.Buffer
				ends := cri.Streams{Stdout: &out}
				got := func(url string, err error) string {
					text := out.String() + url
					if out.Reset(); err != nil {
						text += err.Error()
					}
					return text
				}
				for i, said := range []string{
					got(r.engine.Exec(t.Context(), web.UID, "main", []string{"ls", "-l"}, ends)),
					got(r.engine.Attach(t.Context(), web.UID, "main", ends)),
					got(r.engine.PortForward(t.Context(), web.UID, &out, 80)),
				} {
					if !strings.Contains(said, test.want[i]) {
						t.Errorf("%d: %q, want %q", i, said, test.want[i])
					}
				}
				for what, problem := range map[string]struct {
					err   error
					class error
				}{
					"no command":        {second(r.engine.Exec(t.Context(), web.UID, "main", nil, ends)), runtime.ErrInvalid},
					"unknown pod":       {second(r.engine.Exec(t.Context(), "none", "main", []string{"ls"}, ends)), runtime.ErrNotFound},
					"unknown container": {second(r.engine.Attach(t.Context(), web.UID, "none", ends)), runtime.ErrNotFound},
					"ports of no pod":   {second(r.engine.PortForward(t.Context(), "none", &out, 80)), runtime.ErrNotFound},
				} {
					if cri.Class(problem.err) != problem.class {
						t.Errorf("%s: %v", what, problem.err)
					}
				}
			})
		})
	}
}

// TestForwardedPorts: OC3: a runtime in this program gets one connection to one port of a running sandbox. Its refusal names
// the pod and keeps its class.
func TestForwardedPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"main": {Exit: &fake.Exit{After: time.Minute}}})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Runtime = direct{rt} }).start()
		pod := newPod("web", "main")
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		r.set(pod)
		r.phase(pod.UID, v1.PodRunning, 30*time.Second)
		var conn bytes.Buffer
		wants := func(what string, err, class error, text string) {
			t.Helper()
			if err == nil || cri.Class(err) != class || !strings.Contains(err.Error(), text) || conn.Len() > 0 {
				t.Errorf("%s: %v, and said %q", what, err, conn.String())
			}
		}
		forward := func(conn io.ReadWriter, ports ...int32) error {
			return second(r.engine.PortForward(t.Context(), pod.UID, conn, ports...))
		}
		wants("two ports", forward(&conn, 80, 82), runtime.ErrInvalid, "one connection to one port")
		wants("no port", forward(&conn), runtime.ErrInvalid, "one connection to one port")
		wants("no connection", forward(nil, 80), runtime.ErrInvalid, "one connection to one port")
		wants("port 0", forward(&conn, 0), runtime.ErrInvalid, "no port is 0")
		wants("refused", forward(&conn, 81), runtime.ErrFailedPrecondition, "pod default/web: nothing listens there")
		r.phase(pod.UID, v1.PodSucceeded, 2*time.Minute)
		wants("a pod that has ended", forward(&conn, 80), runtime.ErrFailedPrecondition, "no running sandbox")
	})
}

func second(_ string, err error) error { return err }

// TestStreamsOfStoppedContainers: OC3: the error distinguishes a container that has ended from one whose pod has. A command ends
// with its context, and a hundred running commands delay nothing.
func TestStreamsOfStoppedContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}, "main": {}})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Runtime = direct{rt} }).start()
		pod := newPod("mixed", "main", "job")
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		r.set(pod)
		r.phase(pod.UID, v1.PodRunning, time.Minute)
		<-time.After(10 * time.Second)
		_, err := r.engine.Exec(t.Context(), pod.UID, "job", []string{"ls"}, cri.Streams{})
		if cri.Class(err) != runtime.ErrFailedPrecondition || !strings.Contains(err.Error(), `container "job" of pod "mixed" is not running`) {
			t.Errorf("a container that has ended: %v", err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the operator has gone")
		ended := make(chan error)
		for range 100 {
			go func() {
				_, err := r.engine.Exec(ctx, pod.UID, "main", []string{"sleep", "1d"}, cri.Streams{})
				ended <- err
			}()
		}
		next := newPod("next")
		r.set(pod, next)
		r.phase(next.UID, v1.PodRunning, 5*time.Second)
		cancel(why)
		for range 100 {
			if err := <-ended; !errors.Is(err, why) {
				t.Errorf("ended by %v", err)
			}
		}
	})
}
