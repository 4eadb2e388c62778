package cri_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// The time limit of every call, spec/runtime.md 23. The fake transport records
// what the context allows; virtual time makes that exact.
func TestDeadlinePerCall(t *testing.T) {
	const (
		T    = 10 * time.Second
		none = time.Duration(-1)
	)
	var c *cri.Client
	for _, tc := range []struct {
		name   string
		method string
		call   func(ctx context.Context) error
		want   time.Duration
	}{
		{"version", "Version", func(ctx context.Context) error { _, err := c.Version(ctx, "0.1.0"); return err }, T},
		{"status", "Status", func(ctx context.Context) error { _, err := c.Status(ctx, false); return err }, T},
		{"list sandboxes", "ListPodSandbox", func(ctx context.Context) error { _, err := c.ListPodSandbox(ctx, nil); return err }, T},
		{"list containers", "ListContainers", func(ctx context.Context) error { _, err := c.ListContainers(ctx, nil); return err }, T},
		{"sandbox status", "PodSandboxStatus", func(ctx context.Context) error { _, err := c.PodSandboxStatus(ctx, "s", false); return err }, T},
		{"container status", "ContainerStatus", func(ctx context.Context) error { _, err := c.ContainerStatus(ctx, "c", false); return err }, T},
		{"run sandbox", "RunPodSandbox", func(ctx context.Context) error { _, err := c.RunPodSandbox(ctx, nil, ""); return err }, 2 * T},
		{"stop sandbox", "StopPodSandbox", func(ctx context.Context) error { return c.StopPodSandbox(ctx, "s") }, T},
		{"remove sandbox", "RemovePodSandbox", func(ctx context.Context) error { return c.RemovePodSandbox(ctx, "s") }, T},
		{"create", "CreateContainer", func(ctx context.Context) error { _, err := c.CreateContainer(ctx, "s", nil, nil); return err }, T},
		{"start", "StartContainer", func(ctx context.Context) error { return c.StartContainer(ctx, "c") }, T},
		{"stop", "StopContainer", func(ctx context.Context) error { return c.StopContainer(ctx, "c", 30) }, T + 30*time.Second},
		{"stop now", "StopContainer", func(ctx context.Context) error { return c.StopContainer(ctx, "c", 0) }, T},
		{"stop, negative grace", "StopContainer", func(ctx context.Context) error { return c.StopContainer(ctx, "c", -5) }, T},
		{"remove", "RemoveContainer", func(ctx context.Context) error { return c.RemoveContainer(ctx, "c") }, T},
		{"exec without time-out", "ExecSync", func(ctx context.Context) error { _, _, err := c.ExecSync(ctx, "c", nil, 0); return err }, none},
		{"exec", "ExecSync", func(ctx context.Context) error { _, _, err := c.ExecSync(ctx, "c", nil, 7*time.Second); return err }, T + 7*time.Second},
		{"exec, rounded up", "ExecSync", func(ctx context.Context) error {
			_, _, err := c.ExecSync(ctx, "c", nil, 1500*time.Millisecond)
			return err
		}, T + 2*time.Second},
		{"reopen log", "ReopenContainerLog", func(ctx context.Context) error { return c.ReopenContainerLog(ctx, "c") }, T},
		{"update resources", "UpdateContainerResources", func(ctx context.Context) error { return c.UpdateContainerResources(ctx, "c", nil) }, T},
		{"update sandbox resources", "UpdatePodSandboxResources", func(ctx context.Context) error { _, err := c.UpdatePodSandboxResources(ctx, nil); return err }, T},
		{"container stats", "ContainerStats", func(ctx context.Context) error { _, err := c.ContainerStats(ctx, "c"); return err }, T},
		{"list container stats", "ListContainerStats", func(ctx context.Context) error { _, err := c.ListContainerStats(ctx, nil); return err }, T},
		{"list pod stats", "ListPodSandboxStats", func(ctx context.Context) error { _, err := c.ListPodSandboxStats(ctx, nil); return err }, T},
		{"exec stream", "Exec", func(ctx context.Context) error { _, err := c.Exec(ctx, nil); return err }, T},
		{"attach", "Attach", func(ctx context.Context) error { _, err := c.Attach(ctx, nil); return err }, T},
		{"port forward", "PortForward", func(ctx context.Context) error { _, err := c.PortForward(ctx, nil); return err }, T},
		{"checkpoint", "CheckpointContainer", func(ctx context.Context) error {
			return c.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{Timeout: 7})
		}, T + 7*time.Second},
		{"list images", "ListImages", func(ctx context.Context) error { _, err := c.ListImages(ctx, nil); return err }, T},
		{"image status", "ImageStatus", func(ctx context.Context) error { _, err := c.ImageStatus(ctx, nil, false); return err }, T},
		{"pull", "PullImage", func(ctx context.Context) error { _, err := c.PullImage(ctx, nil, nil, nil); return err }, none},
		{"remove image", "RemoveImage", func(ctx context.Context) error { return c.RemoveImage(ctx, nil) }, T},
		{"image file systems", "ImageFsInfo", func(ctx context.Context) error { _, err := c.ImageFsInfo(ctx); return err }, T},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, method := none, ""
				c = unconnected(t, cri.Options{CallTimeout: T}, func(ctx context.Context, m string, _, _ any) error {
					method = m
					if deadline, ok := ctx.Deadline(); ok {
						got = time.Until(deadline)
					}
					return status.Error(codes.Aborted, "seen")
				})
				if err := tc.call(t.Context()); status.Code(err) != codes.Aborted {
					t.Fatalf("got error %v, want the transport's", err)
				}
				if method != tc.method || got != tc.want {
					t.Errorf("%s may take %v, want %s and %v", method, got, tc.method, tc.want)
				}
			})
		})
	}
}

// A very long grace period must not overflow into the past.
func TestStopContainerHugeGrace(t *testing.T) {
	for _, grace := range []int64{math.MaxInt64, math.MaxInt64 / int64(time.Second)} {
		c := unconnected(t, cri.Options{}, func(ctx context.Context, _ string, _, _ any) error { return ctx.Err() })
		if err := c.StopContainer(t.Context(), "c", grace); err != nil {
			t.Errorf("grace %d: %v", grace, err)
		}
	}
}

// A call that runs into its own limit is a deadline, not a cancellation.
func TestCallTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := unconnected(t, cri.Options{}, hang)
		start := time.Now()
		err := c.StartContainer(t.Context(), "c")
		if !errors.Is(err, runtime.ErrDeadline) {
			t.Errorf("got %v, want ErrDeadline", err)
		}
		if got := time.Since(start); got != 2*time.Minute {
			t.Errorf("took %v", got)
		}
	})
}

func TestCallEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := unconnected(t, cri.Options{}, hang)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := c.StartContainer(ctx, "c"); !errors.Is(err, runtime.ErrCanceled) {
			t.Errorf("got %v, want ErrCanceled", err)
		}
	})
}

func TestExecSync(t *testing.T) {
	for _, tc := range []struct {
		name     string
		response *runtimeapi.ExecSyncResponse
		err      error
		wantOut  string
		check    func(error) bool
	}{
		{"success", &runtimeapi.ExecSyncResponse{Stdout: []byte("o")}, nil, "o", func(err error) bool { return err == nil }},
		{
			"exit code with output",
			&runtimeapi.ExecSyncResponse{Stdout: []byte("o"), ExitCode: 3}, nil, "o",
			func(err error) bool {
				var exit interface{ ExitStatus() int }
				return errors.As(err, &exit) && exit.ExitStatus() == 3 && cri.Class(err) == nil
			},
		},
		{
			"command timed out", nil, status.Error(codes.DeadlineExceeded, "timeout 1s exceeded"), "",
			func(err error) bool { return errors.Is(err, runtime.ErrDeadline) },
		},
		{ // 23.7
			"a negative exit code is a time-out", &runtimeapi.ExecSyncResponse{Stdout: []byte("o"), ExitCode: -1}, nil, "o",
			func(err error) bool {
				var exit interface{ ExitStatus() int }
				return errors.Is(err, runtime.ErrDeadline) && !errors.As(err, &exit)
			},
		},
		{
			"no such container", nil, status.Error(codes.NotFound, "no"), "",
			func(err error) bool { return errors.Is(err, runtime.ErrNotFound) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := unconnected(t, cri.Options{}, func(_ context.Context, _ string, _, reply any) error {
				if tc.response != nil {
					r := reply.(*runtimeapi.ExecSyncResponse)
					r.Stdout, r.ExitCode = tc.response.Stdout, tc.response.ExitCode
				}
				return tc.err
			})
			out, _, err := c.ExecSync(t.Context(), "c", []string{"x"}, time.Second)
			if string(out) != tc.wantOut || !tc.check(err) {
				t.Errorf("got %q, %v", out, err)
			}
		})
	}
}

// TestNoTimeoutNoDeadline: without a time-out, a command that did not end by itself has failed
// in a way that the runtime does not report (spec/runtime.md 23.7).
func TestNoTimeoutNoDeadline(t *testing.T) {
	c := unconnected(t, cri.Options{}, func(_ context.Context, _ string, _, reply any) error {
		reply.(*runtimeapi.ExecSyncResponse).ExitCode = -1
		return nil
	})
	_, _, err := c.ExecSync(t.Context(), "c", []string{"x"}, 0)
	var exit interface{ ExitStatus() int }
	if err == nil || cri.Class(err) != nil || errors.As(err, &exit) {
		t.Errorf("got %v, want an error without class and exit status", err)
	}
}

// CRI counts in seconds: half a second must not become "no limit".
func TestExecSyncTimeoutSent(t *testing.T) {
	for timeout, want := range map[time.Duration]int64{0: 0, -1: 0, time.Millisecond: 1, time.Second: 1, 1001 * time.Millisecond: 2} {
		var got int64
		c := unconnected(t, cri.Options{}, func(_ context.Context, _ string, request, _ any) error {
			got = request.(*runtimeapi.ExecSyncRequest).GetTimeout()
			return nil
		})
		if _, _, err := c.ExecSync(t.Context(), "c", nil, timeout); err != nil || got != want {
			t.Errorf("%v: sent %d, %v; want %d", timeout, got, err, want)
		}
	}
}

// Removing what is gone succeeds, whatever the runtime thinks; questions about
// it do not.
func TestNotFound(t *testing.T) {
	c := unconnected(t, cri.Options{}, func(context.Context, string, any, any) error {
		return status.Error(codes.NotFound, "gone")
	})
	ctx := t.Context()
	fine := map[string]error{
		"StopPodSandbox":   c.StopPodSandbox(ctx, "s"),
		"RemovePodSandbox": c.RemovePodSandbox(ctx, "s"),
		"RemoveContainer":  c.RemoveContainer(ctx, "c"),
		"RemoveImage":      c.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: "i"}),
	}
	for name, err := range fine {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r, err := c.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: "i"}, false); err != nil || r == nil || r.GetImage() != nil {
		t.Errorf("ImageStatus: got %v, %v; want no image and no error", r, err)
	}
	_, statusErr := c.ContainerStatus(ctx, "c", false)
	_, sandboxErr := c.PodSandboxStatus(ctx, "s", false)
	for name, err := range map[string]error{
		"ContainerStatus":  statusErr,
		"PodSandboxStatus": sandboxErr,
		"StopContainer":    c.StopContainer(ctx, "c", 1),
		"StartContainer":   c.StartContainer(ctx, "c"),
	} {
		if !cri.IsNotFound(err) {
			t.Errorf("%s: got %v, want ErrNotFound", name, err)
		}
	}
}

// An object without an ID could never be stopped.
func TestNoID(t *testing.T) {
	c := unconnected(t, cri.Options{}, func(context.Context, string, any, any) error { return nil })
	ctx := t.Context()
	_, sandboxErr := c.RunPodSandbox(ctx, nil, "")
	_, containerErr := c.CreateContainer(ctx, "s", nil, nil)
	_, pullErr := c.PullImage(ctx, nil, nil, nil)
	for _, err := range []error{sandboxErr, containerErr, pullErr} {
		if err == nil {
			t.Error("an answer without ID passed for success")
		}
	}
}

func TestErrorClasses(t *testing.T) {
	classes := map[codes.Code]error{
		codes.NotFound:           runtime.ErrNotFound,
		codes.AlreadyExists:      runtime.ErrAlreadyExists,
		codes.Unavailable:        runtime.ErrUnavailable,
		codes.DeadlineExceeded:   runtime.ErrDeadline,
		codes.Canceled:           runtime.ErrCanceled,
		codes.Unimplemented:      runtime.ErrUnimplemented,
		codes.InvalidArgument:    runtime.ErrInvalid,
		codes.OutOfRange:         runtime.ErrInvalid,
		codes.FailedPrecondition: runtime.ErrFailedPrecondition,
		codes.ResourceExhausted:  runtime.ErrExhausted,
		codes.Unknown:            nil,
		codes.Internal:           nil,
		codes.Aborted:            nil,
		codes.PermissionDenied:   nil,
		codes.Unauthenticated:    nil,
		codes.DataLoss:           nil,
	}
	for code, want := range classes {
		t.Run(code.String(), func(t *testing.T) {
			c := unconnected(t, cri.Options{}, func(context.Context, string, any, any) error {
				return status.Error(code, "what the runtime said")
			})
			err := c.StartContainer(t.Context(), "c")
			wrapped := fmt.Errorf("pod: %w", fmt.Errorf("start: %w", err))
			if got := cri.Class(wrapped); got != want {
				t.Errorf("Class = %v, want %v", got, want)
			}
			for _, class := range classes {
				if class != nil && errors.Is(wrapped, class) != (class == want) {
					t.Errorf("errors.Is(err, %v) is wrong", class)
				}
			}
			var e *cri.Error
			if !errors.As(wrapped, &e) || e.Op != "StartContainer" || e.Code != code {
				t.Errorf("got %#v", e)
			}
			if s := status.Convert(err); s.Code() != code || s.Message() != "what the runtime said" {
				t.Errorf("status %v", s)
			}
		})
	}
}

// RT6: errors that runtimes report with other codes than CRI means get the right class. A name
// that an earlier attempt holds is reserved (spec/runtime.md 2.4 makes names from the attempt).
func TestVagueCodesGetTheirClass(t *testing.T) {
	const (
		reserved = `failed to reserve sandbox name "p_n_u_0": name "p_n_u_0" is reserved for "613f"`
		missing  = `could not find container "613f": container with ID starting with 613f not found: ID does not exist`
	)
	calls := map[string]func(c *cri.Client) error{
		"RunPodSandbox": func(c *cri.Client) error { _, err := c.RunPodSandbox(t.Context(), nil, ""); return err },
		"CreateContainer": func(c *cri.Client) error {
			_, err := c.CreateContainer(t.Context(), "s", nil, nil)
			return err
		},
		"StartContainer": func(c *cri.Client) error { return c.StartContainer(t.Context(), "c") },
		"UpdateContainerResources": func(c *cri.Client) error {
			return c.UpdateContainerResources(t.Context(), "c", nil)
		},
		"ContainerStats":     func(c *cri.Client) error { _, err := c.ContainerStats(t.Context(), "c"); return err },
		"ReopenContainerLog": func(c *cri.Client) error { return c.ReopenContainerLog(t.Context(), "c") },
		"ExecSync": func(c *cri.Client) error {
			_, _, err := c.ExecSync(t.Context(), "c", nil, time.Second)
			return err
		},
	}
	for _, tc := range []struct {
		code    codes.Code
		message string
		want    map[string]error // nil for all others
		others  error
	}{
		{codes.Unknown, reserved, map[string]error{"RunPodSandbox": runtime.ErrAlreadyExists, "CreateContainer": runtime.ErrAlreadyExists}, nil},
		{
			codes.FailedPrecondition, reserved,
			map[string]error{"RunPodSandbox": runtime.ErrAlreadyExists, "CreateContainer": runtime.ErrAlreadyExists},
			runtime.ErrFailedPrecondition,
		},
		{codes.FailedPrecondition, "sandbox is not ready", nil, runtime.ErrFailedPrecondition},
		{codes.Unavailable, reserved, nil, runtime.ErrUnavailable},
		{codes.Unknown, missing, map[string]error{
			"CreateContainer": runtime.ErrNotFound, "UpdateContainerResources": runtime.ErrNotFound,
			"ContainerStats": runtime.ErrNotFound, "ReopenContainerLog": runtime.ErrNotFound,
		}, nil},
		{codes.Unknown, "the ID does not exist in /etc/passwd of the image", nil, nil},
		{codes.Internal, missing, nil, nil},
	} {
		c := unconnected(t, cri.Options{}, func(context.Context, string, any, any) error {
			return status.Error(tc.code, tc.message)
		})
		for op, call := range calls {
			want := tc.others
			if class, special := tc.want[op]; special {
				want = class
			}
			if got := cri.Class(call(c)); got != want {
				t.Errorf("%s: %v %q has the class %v, want %v", op, tc.code, tc.message, got, want)
			}
		}
	}
}

// unconnected returns a client over a fake transport.
func unconnected(t *testing.T, options cri.Options, transport func(ctx context.Context, method string, request, reply any) error) *cri.Client {
	t.Helper()
	c, err := cri.NewUnconnected(options, func(ctx context.Context, method string, request, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		return transport(ctx, path.Base(method), request, reply)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// hang is a transport that answers only once the call no longer waits.
func hang(ctx context.Context, _ string, _, _ any) error {
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
}
