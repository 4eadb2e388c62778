//go:build linux

package process

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// rootFS makes a root file system from a static busybox. It skips the test if
// that needs more than there is.
func rootFS(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a root file system needs root")
	}
	const busybox = "/bin/busybox"
	if out, err := exec.Command(busybox, "true").CombinedOutput(); err != nil {
		t.Skipf("no busybox: %v %s", err, out)
	}
	root := filepath.Join(t.TempDir(), "rootfs")
	for _, dir := range []string{"bin", "tmp", "etc", "dev", "proc"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	must(t, os.Chmod(filepath.Join(root, "tmp"), 0o1777))
	data, err := os.ReadFile(busybox)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(root, "bin/busybox"), data, 0o755))
	if out, err := exec.Command("chroot", root, busybox, "true").CombinedOutput(); err != nil {
		t.Skipf("busybox is not static: %v %s", err, out)
	}
	for _, applet := range []string{"sh", "cat", "id", "ls", "sleep", "echo", "touch", "head", "env"} {
		must(t, os.Symlink("busybox", filepath.Join(root, "bin", applet)))
	}
	must(t, os.WriteFile(filepath.Join(root, "etc/passwd"), []byte("root:x:0:0::/:/bin/sh\napp:x:1234:77::/:/bin/sh\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "etc/group"), []byte("root:x:0:\nmedia:x:88:other,app\n"), 0o644))
	return root
}

// inImage runs a script in an image, as a container and as a command in one, and
// returns both outputs.
func inImage(t *testing.T, r *Runtime, image, script string, change ...func(*runtimeapi.ContainerConfig)) (container, command string) {
	t.Helper()
	change = append(change, func(c *runtimeapi.ContainerConfig) { c.Image.Image = image })
	name := func(n string) func(*runtimeapi.ContainerConfig) {
		return func(c *runtimeapi.ContainerConfig) { c.Metadata.Name, c.LogPath = n, n+"/0.log" }
	}
	config := sandboxConfig(t)
	config.Metadata.Name = t.Name()
	sandbox, err := r.RunPodSandbox(t.Context(), config, "")
	must(t, err)
	defer func() { must(t, r.RemovePodSandbox(t.Context(), sandbox)) }()
	start := func(script string, change ...func(*runtimeapi.ContainerConfig)) string {
		id, err := r.CreateContainer(t.Context(), sandbox, shell(script, change...), nil)
		must(t, err)
		must(t, r.StartContainer(t.Context(), id))
		return id
	}
	id := start(script, append(change, name("container"))...)
	waitExit(t, r, id)
	container = logText(t, r, id)
	id = start("while :; do sleep 1000; done", append(change, name("host-of-command"))...)
	stdout, stderr, err := r.ExecSync(t.Context(), id, []string{"sh", "-c", script}, 0)
	if err != nil {
		t.Fatalf("exec: %v: %s", err, stderr)
	}
	return container, string(stdout)
}

// both wants the same output from a container and from a command in it.
func both(t *testing.T, want, container, command string) {
	t.Helper()
	if container != want {
		t.Errorf("container prints %q, want %q", container, want)
	}
	if command != want {
		t.Errorf("command in the container prints %q, want %q", command, want)
	}
}

// Mounts are seen in the container and by commands in it, nowhere else; read-only
// is read-only; mount points are made inside the root, wherever links point.
func TestMountsInRootFS(t *testing.T) {
	root := rootFS(t)
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r := newRuntime(t, supervisor)
		data := t.TempDir()
		must(t, os.WriteFile(data+"/file", []byte("content\n"), 0o644))
		// Not below /dev, where temporary files may be: a container sees the host's.
		escape, err := os.MkdirTemp("/var/tmp", "podwright-")
		must(t, err)
		t.Cleanup(func() { must(t, os.RemoveAll(escape)) })
		must(t, os.RemoveAll(root+"/link"))
		must(t, os.Symlink("/../../../.."+escape, root+"/link"))
		container, command := inImage(t, r, root,
			"cat /data/deep/file /single /link/m/file; touch /data/deep/x 2>/dev/null || echo ro; touch /rw/x && echo rw; [ -c /dev/null ] && echo dev",
			func(c *runtimeapi.ContainerConfig) {
				c.Mounts = []*runtimeapi.Mount{
					{ContainerPath: "/data/deep", HostPath: data, Readonly: true},
					{ContainerPath: "/single", HostPath: data + "/file"},
					{ContainerPath: "/rw", HostPath: t.TempDir()},
				}
				// The link leads, inside the root, to a path that is made there.
				must(t, os.MkdirAll(root+escape, 0o755))
				c.Mounts = append(c.Mounts, &runtimeapi.Mount{ContainerPath: "/link/m", HostPath: data})
			})
		both(t, "content\ncontent\ncontent\nro\nrw\ndev\n", container, command)
		for _, dir := range []string{root + "/data/deep", escape} {
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("%s on the host: %v %v", dir, entries, err)
			}
		}
		if mounts := readFile(t, "/proc/self/mounts"); strings.Contains(mounts, root) {
			t.Errorf("the host sees the container's mounts:\n%s", mounts)
		}
	})
}

// On the host a mount needs an existing mount point, and hides nothing from others.
func TestMountsOnHost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r := newRuntime(t, supervisor)
		data, at := t.TempDir(), t.TempDir()
		touch(t, data+"/file")
		container, command := inImage(t, r, "host", "ls "+at, func(c *runtimeapi.ContainerConfig) {
			c.Mounts = []*runtimeapi.Mount{{ContainerPath: at, HostPath: data}, {ContainerPath: data, HostPath: data}}
		})
		both(t, "file\n", container, command)
		if entries, err := os.ReadDir(at); err != nil || len(entries) > 0 {
			t.Errorf("the host sees the mount: %v %v", entries, err)
		}
		missing := filepath.Join(at, "missing")
		id, err := r.CreateContainer(t.Context(), runSandbox(t, r), shell("true", func(c *runtimeapi.ContainerConfig) {
			c.Mounts = []*runtimeapi.Mount{{ContainerPath: missing, HostPath: data}}
		}), nil)
		must(t, err)
		if err := r.StartContainer(t.Context(), id); err == nil || !strings.Contains(err.Error(), "mount at "+data) {
			t.Errorf("start: %v", err)
		}
		if _, err := os.Stat(missing); !os.IsNotExist(err) {
			t.Errorf("a mount point was made on the host: %v", err)
		}
	})
}

// Users, groups and no_new_privs are applied, to commands too.
func TestUsers(t *testing.T) {
	root := rootFS(t)
	value := func(n int64) *runtimeapi.Int64Value { return &runtimeapi.Int64Value{Value: n} }
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r := newRuntime(t, supervisor)
		for _, c := range []struct {
			name, want string
			sc         *runtimeapi.LinuxContainerSecurityContext
		}{
			{"agent's own", "0 0", nil},
			{"user in passwd", "1234 77 88", &runtimeapi.LinuxContainerSecurityContext{RunAsUser: value(1234)}},
			{"user name", "1234 77 88", &runtimeapi.LinuxContainerSecurityContext{RunAsUsername: "app"}},
			{"strict groups", "1234 77 5", &runtimeapi.LinuxContainerSecurityContext{
				RunAsUser: value(1234), SupplementalGroups: []int64{5},
				SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict,
			}},
			{"unknown user with group", "4321 9", &runtimeapi.LinuxContainerSecurityContext{RunAsUser: value(4321), RunAsGroup: value(9)}},
			{"groups only", "0 0 5 6", &runtimeapi.LinuxContainerSecurityContext{SupplementalGroups: []int64{5, 6}}},
		} {
			t.Run(c.name, func(t *testing.T) {
				container, command := inImage(t, r, root, "echo $(id -u) $(id -G) > /dev/stdout", func(config *runtimeapi.ContainerConfig) {
					config.Linux = &runtimeapi.LinuxContainerConfig{SecurityContext: c.sc}
				})
				both(t, c.want+"\n", container, command)
			})
		}
		container, command := inImage(t, r, "host", "grep NoNewPrivs /proc/self/status", func(config *runtimeapi.ContainerConfig) {
			config.Linux = &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NoNewPrivs: true}}
		})
		both(t, "NoNewPrivs:\t1\n", container, command)
		if line := readFile(t, "/proc/self/status"); !strings.Contains(line, "NoNewPrivs:\t0\n") {
			t.Error("the agent lost privileges with its container")
		}
	})
}

// spec/runtime.md 3.5: with the policy Strict a container has neither the groups of the agent nor those of its image. Status says
// so of an agent that runs as root; another one cannot take its own groups from a container.
func TestStrictGroups(t *testing.T) {
	root, able := t.TempDir(), os.Geteuid() == 0
	must(t, os.Mkdir(filepath.Join(root, "etc"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "etc/passwd"), []byte("root:x:0:0::/:/bin/sh\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "etc/group"), []byte("disk:x:6:root\n"), 0o644))
	strict := &runtimeapi.LinuxContainerSecurityContext{SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict}
	user, err := resolveUser(root, strict)
	if err != nil || (user != nil) != able || able && (user.UID != 0 || user.GID != 0 || len(user.Groups) != 0) {
		t.Errorf("runs as %+v, %v; as nil it has the agent's groups", user, err)
	}
	status, err := newRuntime(t, Supervisor{}).Status(t.Context(), false)
	if err != nil || status.GetFeatures().GetSupplementalGroupsPolicy() != able {
		t.Errorf("Status: %v, %v", status, err)
	}
}

// An agent without privileges runs containers of image host, and says what it
// cannot do.
func TestUnprivilegedAgent(t *testing.T) {
	if os.Geteuid() == 0 {
		// Run this test again as another user.
		dir, err := os.MkdirTemp("/tmp", "unprivileged")
		must(t, err)
		defer os.RemoveAll(dir)
		must(t, os.Chown(dir, 65534, 65534))
		command := exec.Command(selfExecutable, "-test.run=^"+t.Name()+"$", "-test.v")
		command.Dir, command.Env = "/", []string{"TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Fatalf("as user 65534: %v\n%s", err, out)
		}
		return
	}
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r := newRuntime(t, supervisor)
		if status, err := r.Status(t.Context(), false); err != nil || status.GetFeatures().GetSupplementalGroupsPolicy() {
			t.Errorf("Status: %v, %v; it cannot take its groups from a container", status, err)
		}
		data := t.TempDir()
		container, command := inImage(t, r, "host", "ls -d "+data, func(c *runtimeapi.ContainerConfig) {
			c.Mounts = []*runtimeapi.Mount{{ContainerPath: data, HostPath: data}}
			c.Linux = &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				RunAsUser: &runtimeapi.Int64Value{Value: int64(os.Geteuid())},
			}}
		})
		both(t, data+"\n", container, command)
		sandbox := runSandbox(t, r)
		for name, change := range map[string]func(*runtimeapi.ContainerConfig){
			"mount": func(c *runtimeapi.ContainerConfig) {
				c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/data", HostPath: data}}
			},
			"read-only mount": func(c *runtimeapi.ContainerConfig) {
				c.Mounts = []*runtimeapi.Mount{{ContainerPath: data, HostPath: data, Readonly: true}}
			},
			"user": func(c *runtimeapi.ContainerConfig) {
				c.Linux = &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{RunAsUser: &runtimeapi.Int64Value{Value: 0}}}
			},
			"image": func(c *runtimeapi.ContainerConfig) { c.Image.Image = "/usr" },
		} {
			_, err := r.CreateContainer(t.Context(), sandbox, shell("true", change), nil)
			if err == nil || !strings.Contains(err.Error(), "runs as root") {
				t.Errorf("%s: %v, want a word about root", name, err)
			}
		}
	})
}

// What a config asks for and this runtime ignores is logged by name.
func TestNotApplied(t *testing.T) {
	got := notApplied(&runtimeapi.ContainerConfig{Linux: &runtimeapi.LinuxContainerConfig{
		Resources: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 1 << 20},
		SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			Capabilities:   &runtimeapi.Capability{DropCapabilities: []string{"ALL"}},
			ReadonlyRootfs: true, Seccomp: &runtimeapi.SecurityProfile{}, Apparmor: &runtimeapi.SecurityProfile{},
			SelinuxOptions: &runtimeapi.SELinuxOption{}, MaskedPaths: []string{"/proc/kcore"},
		},
	}})
	data, err := json.Marshal(got)
	must(t, err)
	if want := `["resources","capabilities","readonlyRootfs","seccomp","apparmor","selinux"]`; string(data) != want {
		t.Errorf("%s, want %s", data, want)
	}
	for name, config := range map[string]*runtimeapi.ContainerConfig{
		"empty": {},
		"what every container gets": {Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       &runtimeapi.LinuxContainerResources{CpuShares: leastCPUShares, OomScoreAdj: 1000},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{MaskedPaths: []string{"/proc/kcore"}, ReadonlyPaths: []string{"/proc/bus"}},
		}},
	} {
		if got := notApplied(config); got != nil {
			t.Errorf("%s: nothing asked for, %v not applied", name, got)
		}
	}
}

// A runtime cannot be opened where it cannot work; all problems are named.
func TestNewRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	touch(t, file)
	for _, root := range []string{"", "relative", file, file + "/below"} {
		if r, err := New(Options{Root: root}); err == nil {
			t.Errorf("root %q was accepted", root)
			_ = r.Close(t.Context())
		}
	}
}

// Names and attempts are unique while the object exists.
func TestAlreadyExists(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	sandbox := runSandbox(t, r)
	if _, err := r.RunPodSandbox(t.Context(), sandboxConfig(t), ""); cri.Class(err) != runtime.ErrAlreadyExists {
		t.Errorf("second sandbox: %v", err)
	}
	first, err := r.CreateContainer(t.Context(), sandbox, shell("true"), nil)
	must(t, err)
	if _, err := r.CreateContainer(t.Context(), sandbox, shell("true"), nil); cri.Class(err) != runtime.ErrAlreadyExists {
		t.Errorf("second container: %v", err)
	}
	must(t, r.RemoveContainer(t.Context(), first))
	_, err = r.CreateContainer(t.Context(), sandbox, shell("true"), nil)
	must(t, err)
}
