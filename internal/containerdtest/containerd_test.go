//go:build containerd

package containerdtest

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runPod starts a sandbox with one busybox container and returns the container's
// ID.
func runPod(t *testing.T, i *Instance, command ...string) string {
	t.Helper()
	return runPodOf(t, i, t.Name(), command...)
}

// runPodOf is runPod for a pod of this UID.
func runPodOf(t *testing.T, i *Instance, uid string, command ...string) string {
	t.Helper()
	conn, err := dial(i.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	ctx := t.Context()
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "test", Uid: uid},
		LogDirectory: i.Root + "/logs",
		Linux:        &runtimeapi.LinuxPodSandboxConfig{},
	}
	sandbox, err := client.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	container, err := client.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox.GetPodSandboxId(), SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
			Image:    &runtimeapi.ImageSpec{Image: i.Image},
			Command:  command,
			LogPath:  "main.log",
			Linux:    &runtimeapi.LinuxContainerConfig{},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: container.GetContainerId()}); err != nil {
		t.Fatal(err)
	}
	return container.GetContainerId()
}

// requireNothingLeft checks that no trace of an instance is on the machine.
func requireNothingLeft(t *testing.T, l layout) {
	t.Helper()
	if l.root == "" {
		t.Fatal("no instance was started")
	}
	processes, err := listProcesses()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		if !p.zombie && slices.ContainsFunc(p.args, func(a string) bool { return strings.Contains(a, l.root) }) {
			t.Errorf("process %d is left: %q", p.pid, p.args)
		}
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if points := mountPoints(string(mountinfo), l.root); len(points) > 0 {
		t.Errorf("mounts are left: %q", points)
	}
	if _, err := os.Stat(l.root); err == nil {
		t.Errorf("the folder %s is left", l.root)
	}
}

func requireNoInterface(t *testing.T, name string) {
	t.Helper()
	if _, err := net.InterfaceByName(name); err == nil {
		t.Errorf("the interface %s is left", name)
	}
}

func requirePrivate(t *testing.T) {
	t.Helper()
	if os.Getenv(EndpointVariable) != "" {
		t.Skipf("%s is set: this tests the private runtime", EndpointVariable)
	}
}

// Two instances run at once, with pods that are not stopped, and leave nothing.
func TestContainerdLeavesNothing(t *testing.T) {
	requirePrivate(t)
	var layouts []layout
	t.Run("running", func(t *testing.T) {
		a, b := Start(t), Start(t)
		if a.slot.number == b.slot.number {
			t.Fatal("two instances in one slot")
		}
		for _, i := range []*Instance{a, b} {
			id := runPod(t, i, "sleep", "3600")
			if running := i.Running(); len(running) != 2 || !slices.Contains(running, id) {
				t.Errorf("%q run, want a sandbox and %s", running, id)
			}
			if p, ok := readProcess(i.PIDOf(id)); !ok || p.zombie {
				t.Errorf("there is no process %d", p.pid)
			}
			layouts = append(layouts, i.layout)
		}
		layouts = append(layouts, a.layout)
	})
	for _, l := range layouts {
		requireNothingLeft(t, l)
	}
}

// A daemon killed and started again still has its container; killed at the end
// of the test, it leaves nothing either.
func TestContainerdKill9(t *testing.T) {
	requirePrivate(t)
	var l layout
	t.Run("running", func(t *testing.T) {
		i := Start(t)
		l = i.layout
		id := runPod(t, i, "sleep", "3600")
		first := i.PID()
		i.Kill9()
		i.Restart()
		if i.PID() == first {
			t.Error("same process after the restart")
		}
		if running := i.Running(); !slices.Contains(running, id) {
			t.Errorf("%q run after the restart, not %s", running, id)
		}
		i.Restart()
		i.Kill9()
	})
	requireNothingLeft(t, l)
}

// After a power cut nothing runs and no memory volume is mounted, while images, records of containers and files are as they were;
// after a restart pods can run.
func TestContainerdPowerCut(t *testing.T) {
	requirePrivate(t)
	var l layout
	t.Run("running", func(t *testing.T) {
		i := Start(t)
		l = i.layout
		id := runPod(t, i, "sleep", "3600")
		pid := i.PIDOf(id)
		volume := i.Root + "/volume"
		if err := errors.Join(os.Mkdir(volume, 0o700), unix.Mount("memory", volume, "tmpfs", 0, ""), os.WriteFile(volume+"/lost", nil, 0o600), os.WriteFile(i.Root+"/kept", nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		i.PowerCut()
		if p, ok := readProcess(pid); ok && !p.zombie {
			t.Errorf("process %d runs", pid)
		}
		if _, err := os.Stat(volume + "/lost"); err == nil {
			t.Error("a file in memory is there")
		}
		if _, err := os.Stat(i.Root + "/kept"); err != nil {
			t.Error(err)
		}
		i.Restart()
		if running, all := i.Running(), i.Containers(); len(running) != 0 || !slices.Contains(all, id) {
			t.Errorf("after the boot %q run, and %q are on record", running, all)
		}
		if id := runPodOf(t, i, "next", "sleep", "3600"); !slices.Contains(i.Running(), id) {
			t.Errorf("container %s does not run", id)
		}
	})
	requireNothingLeft(t, l)
}

// A killed test run cleans up nothing; the next holder of its slot does.
func TestContainerdLeftoversOfAKilledRun(t *testing.T) {
	requirePrivate(t)
	tools, err := thisMachine().find()
	if err != nil {
		t.Fatal(err)
	}
	dead, err := newInstance(t, tools)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // however the test ends
		if dead.process == nil {
			return
		}
		if err := dead.process.kill(); err != nil {
			t.Error(err)
		}
	})
	if err := dead.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	runPod(t, dead, "sleep", "3600")
	// What the kernel does when the process dies.
	if err := dead.slot.lock.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("next", func(t *testing.T) {
		// A slot before it that another process has given back meanwhile is taken first.
		for next := Start(t); next.slot.number != dead.slot.number; next = Start(t) {
			if next.slot.number > dead.slot.number {
				t.Skipf("another process took slot %d first and cleans up", dead.slot.number)
			}
		}
		requireNothingLeft(t, dead.layout)
		requireNoInterface(t, dead.slot.bridge())
	})
}

// A runtime that is already running is used as it is. An image that it lacks is pulled from the
// test, which removes it afterwards (RT10).
func TestContainerdForeign(t *testing.T) {
	requirePrivate(t)
	private := Start(t)
	runPod(t, private, "sleep", "3600")
	t.Setenv(EndpointVariable, private.Endpoint)
	use := func(t *testing.T) *Instance {
		foreign := Start(t)
		if left := foreign.Containers(); len(left) > 0 {
			t.Errorf("%q are called the test's own, and were there before", left)
		}
		if foreign.Private || foreign.Endpoint != private.Endpoint || foreign.Root == private.Root {
			t.Errorf("got %+v", foreign)
		}
		if present, err := private.hasImage(foreign.Image); err != nil || !present {
			t.Errorf("image %s present: %v, %v", foreign.Image, present, err)
		}
		return foreign
	}
	held := private.Containers()
	var first, second string
	t.Run("pulled", func(t *testing.T) {
		one, other := use(t), use(t)
		first, second = one.Image, other.Image
		if first == Image || first == second {
			t.Errorf("two users have the images %s and %s; want one for each", first, second)
		}
		runPod(t, one, "sleep", "3600")
	})
	for _, image := range []string{first, second} {
		if present, err := private.hasImage(image); err != nil || present {
			t.Errorf("image %s after its test: present %v, %v", image, present, err)
		}
	}
	if left := private.Containers(); !slices.Equal(left, held) {
		t.Errorf("the runtime has %q, before the tests %q", left, held)
	}
}

// The registry works for the one client that matters.
func TestContainerdRegistry(t *testing.T) {
	i := Start(t)
	if !i.Private {
		t.Skip("pulls with ctr, which only a private containerd is known to have")
	}
	open := ServeRegistry(t, RegistryOptions{})
	i.Ctr("images", "pull", "--plain-http", open.Image)
	if list := i.Ctr("images", "ls", "-q"); !strings.Contains(list, open.Image) {
		t.Errorf("images %q do not show %s", list, open.Image)
	}
	closed := ServeRegistry(t, RegistryOptions{Username: "bob", Password: "s3cret"})
	i.Ctr("images", "pull", "--plain-http", "--user", "bob:s3cret", closed.Image)
	bearer := ServeRegistry(t, RegistryOptions{Username: "bob", Password: "s3cret", Bearer: true})
	i.Ctr("images", "pull", "--plain-http", "--user", "bob:s3cret", bearer.Image)
}
