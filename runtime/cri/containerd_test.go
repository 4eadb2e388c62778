//go:build containerd

package cri_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/testing/protocmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/runtimetest"
)

// The suite on a real containerd, pulls from a registry on loopback included.
func TestConformanceContainerd(t *testing.T) {
	i := containerdtest.Start(t)
	registry := containerdtest.ServeRegistry(t, containerdtest.RegistryOptions{})
	c := dial(t, i.Endpoint, cri.Options{})
	runtimetest.Run(t, func(*testing.T) runtimetest.Subject {
		return runtimetest.Subject{
			Runtime:   c,
			Images:    c,
			Image:     i.Image,
			PullImage: registry.Image,
			Command:   runtimetest.Shell("/bin/sh"),
			Timeout:   patience.Of(time.Minute),
			LogWait:   patience.Of(2 * time.Second),
		}
	})
}

// pod is a sandbox of a test on a real runtime.
type pod struct {
	t       *testing.T
	c       *cri.Client
	image   string
	config  *runtimeapi.PodSandboxConfig
	sandbox string
}

func runPod(t *testing.T, c *cri.Client, i *containerdtest.Instance) *pod {
	t.Helper()
	p := &pod{t: t, c: c, image: i.Image, config: &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "cri-test", Uid: t.Name()},
		LogDirectory: t.TempDir(),
		Linux:        &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: namespaces()}},
	}}
	var err error
	if p.sandbox, err = c.RunPodSandbox(t.Context(), p.config, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(c.StopPodSandbox(ctx, p.sandbox), c.RemovePodSandbox(ctx, p.sandbox)); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *pod) containerConfig(name string, command ...string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: p.image, UserSpecifiedImage: p.image},
		Command:  command,
		LogPath:  name + ".log",
		// Some runtimes take the namespaces of a container from its own config only.
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: namespaces()}},
	}
}

// namespaces are those of a pod that asks for nothing.
func namespaces() *runtimeapi.NamespaceOption {
	return &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
}

func (p *pod) create(name string, command ...string) string {
	p.t.Helper()
	id, err := p.c.CreateContainer(p.t.Context(), p.sandbox, p.containerConfig(name, command...), p.config)
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

func (p *pod) start(name string, command ...string) string {
	p.t.Helper()
	id := p.create(name, command...)
	if err := p.c.StartContainer(p.t.Context(), id); err != nil {
		p.t.Fatal(err)
	}
	return id
}

func (p *pod) status(id string) *runtimeapi.ContainerStatus {
	p.t.Helper()
	response, err := p.c.ContainerStatus(p.t.Context(), id, false)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.GetStatus()
}

// containerd is killed and comes back: nothing about the pod has changed, a
// container that ended meanwhile has its own exit code or, on a runtime that can no
// longer know it, 255 and the reason Unknown, and the client needs no help to find
// the new process.
func TestContainerdKilled(t *testing.T) {
	i := containerdtest.Start(t)
	i.NeedPrivate(t, "kills the runtime")
	c := dial(t, i.Endpoint, cri.Options{})
	ctx := t.Context()
	p := runPod(t, c, i)
	runs := p.start("runs", "sleep", "3600")
	created := p.create("created", "sleep", "3600")
	ends := p.start("ends", "sh", "-c", "trap 'exit 5' TERM; touch /up; while :; do sleep 0.05; done")
	patience.Until(t, "the container listens to SIGTERM, which PID 1 ignores before", func() bool {
		_, _, err := c.ExecSync(ctx, ends, []string{"test", "-e", "/up"}, 0)
		return err == nil
	})
	endsPID := i.PIDOf(ends)
	sandboxBefore, err := c.PodSandboxStatus(ctx, p.sandbox, false)
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]*runtimeapi.ContainerStatus{"runs": p.status(runs), "created": p.status(created)}

	i.Kill9()
	_, err = c.ContainerStatus(ctx, runs, false)
	if !errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("runtime down: got %v, want ErrUnavailable", err)
	}
	if err := unix.Kill(endsPID, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "the container ends while containerd is down", func() bool {
		return errors.Is(unix.Kill(endsPID, 0), unix.ESRCH)
	})
	i.Restart()
	patience.Until(t, "client reconnects", func() bool {
		_, err := c.Version(ctx, cri.APIVersion)
		return err == nil
	})

	after := map[string]*runtimeapi.ContainerStatus{"runs": p.status(runs), "created": p.status(created)}
	if diff := cmp.Diff(before, after, protocmp.Transform()); diff != "" {
		t.Errorf("containers changed (-before +after):\n%s", diff)
	}
	sandboxAfter, err := c.PodSandboxStatus(ctx, p.sandbox, false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sandboxBefore, sandboxAfter, protocmp.Transform()); diff != "" {
		t.Errorf("sandbox changed, its address included (-before +after):\n%s", diff)
	}
	patience.Until(t, "the exit of a container is noticed", func() bool {
		return p.status(ends).GetState() == runtimeapi.ContainerState_CONTAINER_EXITED
	})
	switch s := p.status(ends); {
	case s.GetExitCode() == 5:
	case s.GetExitCode() == 255 && s.GetReason() == "Unknown":
		t.Logf("this runtime does not know how a container ended while it was down: %s", s.GetMessage())
	default:
		t.Errorf("exit code %d, reason %q; want 5, or 255 and Unknown", s.GetExitCode(), s.GetReason())
	}
	if err := c.StartContainer(ctx, created); err != nil {
		t.Errorf("start of a container created before the crash: %v", err)
	}
	list, err := c.ListPodSandbox(ctx, nil)
	if err != nil || len(list) != 1 {
		t.Errorf("got %d sandboxes, %v; want the one", len(list), err)
	}
}

// A create call whose answer is lost may have created the container. Its name is then
// taken, which must be recognizable, or the call is answered with the existing container;
// and the container shows up in the list so that it can be removed.
func TestContainerdLostCreate(t *testing.T) {
	i := containerdtest.Start(t)
	c := dial(t, i.Endpoint, cri.Options{})
	p := runPod(t, c, i)
	first := p.create("main", "true")
	second, err := c.CreateContainer(t.Context(), p.sandbox, p.containerConfig("main", "true"), p.config)
	if !errors.Is(err, runtime.ErrAlreadyExists) && (err != nil || second != first) {
		t.Errorf("second create: got %q, %v; want ErrAlreadyExists, or %s", second, err, first)
	}
	second, err = c.RunPodSandbox(t.Context(), p.config, "")
	if !errors.Is(err, runtime.ErrAlreadyExists) && (err != nil || second != p.sandbox) {
		t.Errorf("second sandbox: got %q, %v; want ErrAlreadyExists, or %s", second, err, p.sandbox)
	}
	if err := c.RemoveContainer(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	p.create("main", "true")
}

// How a container that could not be started looks: it has exited, without ever
// having been started. A runtime may already refuse to create it, and says why.
func TestContainerdStartError(t *testing.T) {
	i := containerdtest.Start(t)
	c := dial(t, i.Endpoint, cri.Options{})
	p := runPod(t, c, i)
	id, err := c.CreateContainer(t.Context(), p.sandbox, p.containerConfig("main", "/no/such/program"), p.config)
	if err != nil {
		if !strings.Contains(err.Error(), "/no/such/program") {
			t.Errorf("the container is not made, with %v", err)
		}
		return
	}
	if err := c.StartContainer(t.Context(), id); err == nil {
		t.Fatal("started a program that does not exist")
	}
	got := cri.NewContainerStatus(p.status(id), "containerd")
	if got.State != runtime.Exited || got.ExitCode != 128 || got.Reason != "StartError" || !got.StartedAt.IsZero() || got.FinishedAt.IsZero() {
		t.Errorf("got %+v", got)
	}
}

// Credentials reach the registry, wrong ones give an error that does not show
// them, and a pull that hangs is ended by the stall limit.
func TestContainerdPull(t *testing.T) {
	i := containerdtest.Start(t)
	ctx := t.Context()

	t.Run("credentials", func(t *testing.T) {
		registry := containerdtest.ServeRegistry(t, containerdtest.RegistryOptions{Username: "bob", Password: "s3cret"})
		c := dial(t, i.Endpoint, cri.Options{})
		spec := &runtimeapi.ImageSpec{Image: registry.Image}
		for name, auth := range map[string]*runtimeapi.AuthConfig{
			"none":  nil,
			"wrong": {Username: "bob", Password: "guessed-wrong"},
		} {
			_, err := c.PullImage(ctx, spec, auth, nil)
			if err == nil || strings.Contains(err.Error(), "guessed-wrong") {
				t.Errorf("%s credentials: %v", name, err)
			}
		}
		ref, err := c.PullImage(ctx, spec, &runtimeapi.AuthConfig{Username: "bob", Password: "s3cret"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: ref}, false)
		if err != nil || !slices.Contains(response.GetImage().GetRepoTags(), registry.Image) {
			t.Errorf("status of %s: %v, %v", ref, response, err)
		}
		if err := c.RemoveImage(ctx, spec); err != nil {
			t.Error(err)
		}
	})

	t.Run("stall", func(t *testing.T) {
		i.NeedPrivate(t, "expects that no image grows")
		stalled := make(chan struct{}, 100)
		registry := containerdtest.ServeRegistry(t, containerdtest.RegistryOptions{Before: func(r *http.Request) {
			if strings.Contains(r.URL.Path, "/blobs/") {
				stalled <- struct{}{}
				<-r.Context().Done()
			}
		}})
		c := dial(t, i.Endpoint, cri.Options{PullStallTimeout: patience.Of(time.Second)})
		done := make(chan error, 1)
		go func() {
			_, err := c.PullImage(ctx, &runtimeapi.ImageSpec{Image: registry.Image}, nil, nil)
			done <- err
		}()
		select {
		case <-stalled:
		case err := <-done:
			t.Fatalf("the pull ended before it could stall: %v", err)
		}
		if err := <-done; !errors.Is(err, runtime.ErrDeadline) || !strings.Contains(err.Error(), "no progress") {
			t.Errorf("got %v, want ErrDeadline for lack of progress", err)
		}
	})
}

// A local image is found by the names the store knows, not by shortened ones, which a
// runtime may refuse.
func TestContainerdImageNames(t *testing.T) {
	i := containerdtest.Start(t)
	c := dial(t, i.Endpoint, cri.Options{})
	id := ""
	got := map[string]bool{}
	for _, name := range []string{i.Image, "busybox:test", "busybox", "docker.io/" + i.Image, "localhost/busybox"} {
		response, err := c.ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: name}, false)
		if err != nil && name == i.Image {
			t.Fatal(err)
		}
		got[name] = response.GetImage() != nil
		if name == i.Image {
			id = response.GetImage().GetId()
		}
	}
	response, err := c.ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: id}, false)
	if err != nil || response.GetImage().GetId() != id {
		t.Errorf("by ID: got %v, %v", response, err)
	}
	found := slices.DeleteFunc(slices.Sorted(maps.Keys(got)), func(name string) bool { return !got[name] })
	if !slices.Equal(found, []string{i.Image}) {
		t.Errorf("found under %q", found)
	}
}
