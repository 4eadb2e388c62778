//go:build linux

package process

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// Environment may hold secrets: only the agent's user can read any file the
// runtime makes in its folder, and the environment is in no file elsewhere.
func TestSecretsStayPrivate(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		root := filepath.Join(t.TempDir(), "root")
		must(t, os.MkdirAll(root, 0o777)) // made by hand, too open
		must(t, os.Chmod(root, 0o777))
		r := openRuntime(t, root, supervisor)
		secret := "s3cr3t-value"
		id := runContainer(t, r, shell("echo up; sleep 1000", func(c *runtimeapi.ContainerConfig) {
			c.Envs = []*runtimeapi.KeyValue{{Key: "PASSWORD", Value: []byte(secret)}}
		}))
		waitLine(t, r, id, "up")
		holds := 0
		must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			must(t, err)
			info, err := d.Info()
			must(t, err)
			if info.Mode().Perm()&0o077 != 0 && info.Mode().Type() != fs.ModeSocket {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			if info.Mode().IsRegular() && strings.Contains(readFile(t, path), secret) {
				holds++
			}
			return nil
		}))
		if holds != 1 {
			t.Errorf("%d files hold the secret, want the container's record only", holds)
		}
		if mode := fileMode(t, status(t, r, id).GetLogPath()); mode&0o007 != 0 {
			t.Errorf("log file has mode %v", mode)
		}
		if i := info(t, r, id); i.SupervisorPID != 0 {
			env := readFile(t, filepath.Join("/proc", itoa(i.SupervisorPID), "environ"))
			line := readFile(t, filepath.Join("/proc", itoa(i.SupervisorPID), "cmdline"))
			if strings.Contains(env+line, secret) {
				t.Error("the supervisor's environment or command line holds the secret")
			}
		}
	})
}

// RD1: a folder in a place that other users can change is refused, because they could
// replace what the runtime starts.
func TestRootInAnOpenPlaceIsRefused(t *testing.T) {
	open := t.TempDir()
	must(t, os.Chmod(filepath.Dir(open), 0o755)) // which t.TempDir closes to all others
	must(t, os.Chmod(open, 0o777))
	if r, err := New(Options{Root: filepath.Join(open, "root")}); err == nil || !strings.Contains(err.Error(), "chmod go-w "+open) {
		if err == nil {
			must(t, r.Close(t.Context()))
		}
		t.Errorf("New: %v", err)
	}
}

func fileMode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Mode()
}

// The agent's own environment is not the container's business.
func TestEnvironmentIsNotInherited(t *testing.T) {
	t.Setenv("AGENT_TOKEN", "secret")
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r := newRuntime(t, supervisor)
		id := runContainer(t, r, shell("env | cut -d= -f1 | grep -v '^_$' | sort", func(c *runtimeapi.ContainerConfig) {
			c.Envs = []*runtimeapi.KeyValue{{Key: "MINE", Value: []byte("1")}}
		}))
		waitExit(t, r, id)
		if got := logText(t, r, id); got != "MINE\nPATH\n"+containerEnv+"\nPWD\n" {
			t.Errorf("variables:\n%s", got)
		}
	})
}

// Names and paths of a config never lead out of the folders they belong to.
func TestPathsStayInside(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	for _, dir := range []string{"relative/logs", "/tmp/../etc", "/tmp/logs/..", "/tmp/a\x00b"} {
		config := sandboxConfig(t)
		config.LogDirectory = dir
		if _, err := r.RunPodSandbox(t.Context(), config, ""); cri.Class(err) != runtime.ErrInvalid {
			t.Errorf("log directory %q: %v, want class %v", dir, err, runtime.ErrInvalid)
		}
	}
	sandbox := runSandbox(t, r)
	for _, path := range []string{"../out.log", "a/../../out.log", "/etc/out.log", "..", ".", "a/..", "a\x00b"} {
		_, err := r.CreateContainer(t.Context(), sandbox, shell("true", func(c *runtimeapi.ContainerConfig) { c.LogPath = path }), nil)
		if cri.Class(err) != runtime.ErrInvalid {
			t.Errorf("log path %q: %v, want class %v", path, err, runtime.ErrInvalid)
		}
	}
	for _, id := range []string{"..", "../sandboxes", sandbox + "/..", "/", ""} {
		if _, err := r.ContainerStatus(t.Context(), id, false); !cri.IsNotFound(err) {
			t.Errorf("status of %q: %v", id, err)
		}
		must(t, r.RemoveContainer(t.Context(), id))
		must(t, r.RemovePodSandbox(t.Context(), id))
	}
	before := folderTree(t, r.root)
	config := sandboxConfig(t)
	config.Metadata = &runtimeapi.PodSandboxMetadata{Name: "../../x", Namespace: "/etc", Uid: "../../../y"}
	config.Labels = map[string]string{"../l": "/../v"}
	id, err := r.RunPodSandbox(t.Context(), config, "")
	must(t, err)
	_, err = r.CreateContainer(t.Context(), id, shell("true", func(c *runtimeapi.ContainerConfig) {
		c.Metadata.Name = "../../../../z"
	}), nil)
	must(t, err)
	must(t, r.RemovePodSandbox(t.Context(), id))
	if after := folderTree(t, r.root); after != before {
		t.Errorf("files before:\n%s\nafter removal:\n%s", before, after)
	}
}

// folderTree lists the files around a folder.
func folderTree(t *testing.T, root string) string {
	t.Helper()
	var out strings.Builder
	must(t, filepath.WalkDir(filepath.Dir(root), func(path string, _ fs.DirEntry, err error) error {
		out.WriteString(path + "\n")
		return err
	}))
	return out.String()
}

// A symbolic link in the log directory does not make the runtime write elsewhere.
func TestLogLinkIsNotFollowed(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r := newRuntime(t, supervisor)
		outside := t.TempDir()
		config := sandboxConfig(t)
		must(t, os.MkdirAll(config.GetLogDirectory(), 0o755))
		must(t, os.Symlink(outside, filepath.Join(config.GetLogDirectory(), "main")))
		sandbox, err := r.RunPodSandbox(t.Context(), config, "")
		must(t, err)
		id, err := r.CreateContainer(t.Context(), sandbox, shell("echo hello"), nil)
		must(t, err)
		if err := r.StartContainer(t.Context(), id); err == nil {
			t.Error("started")
		}
		entries, err := os.ReadDir(outside)
		must(t, err)
		if len(entries) > 0 {
			t.Errorf("wrote %v", entries)
		}
	})
}

// Everything wrong with a config is said at once, and nothing is dropped silently
// that a program depends on.
func TestConfigRefused(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	sandbox := runSandbox(t, r)
	security := func(sc *runtimeapi.LinuxContainerSecurityContext) func(*runtimeapi.ContainerConfig) {
		return func(c *runtimeapi.ContainerConfig) {
			c.Linux = &runtimeapi.LinuxContainerConfig{SecurityContext: sc}
		}
	}
	mount := func(m *runtimeapi.Mount) func(*runtimeapi.ContainerConfig) {
		return func(c *runtimeapi.ContainerConfig) { c.Mounts = []*runtimeapi.Mount{m} }
	}
	for _, c := range []struct {
		name   string
		change func(*runtimeapi.ContainerConfig)
		says   []string
	}{
		{"no name", func(c *runtimeapi.ContainerConfig) { c.Metadata = nil }, []string{"name"}},
		{"no command", func(c *runtimeapi.ContainerConfig) { c.Command = nil }, []string{"no command"}},
		{"several problems", func(c *runtimeapi.ContainerConfig) { c.Tty, c.Command, c.WorkingDir = true, nil, "x" }, []string{"tty", "no command"}},
		{"relative working directory", func(c *runtimeapi.ContainerConfig) { c.WorkingDir = "x" }, []string{"working directory"}},
		{"bad variable", func(c *runtimeapi.ContainerConfig) {
			c.Envs = []*runtimeapi.KeyValue{{Key: "A=B", Value: []byte("hidden")}}
		}, []string{"A=B"}},
		{"device", func(c *runtimeapi.ContainerConfig) { c.Devices = []*runtimeapi.Device{{}} }, []string{"devices"}},
		{"group without user", security(&runtimeapi.LinuxContainerSecurityContext{RunAsGroup: &runtimeapi.Int64Value{Value: 1}}), []string{"group"}},
		{"user out of range", security(&runtimeapi.LinuxContainerSecurityContext{RunAsUser: &runtimeapi.Int64Value{Value: -1}}), []string{"-1"}},
		{"unknown user", security(&runtimeapi.LinuxContainerSecurityContext{RunAsUsername: "no-such-user"}), nil},
		{"mount over root", mount(&runtimeapi.Mount{ContainerPath: "/", HostPath: "/tmp"}), []string{"mount"}},
		{"mount out of root", mount(&runtimeapi.Mount{ContainerPath: "/a/../../b", HostPath: "/tmp"}), []string{".."}},
		{"relative host path", mount(&runtimeapi.Mount{ContainerPath: "/a", HostPath: "tmp"}), []string{"host path"}},
		{"image mount", mount(&runtimeapi.Mount{ContainerPath: "/a", Image: &runtimeapi.ImageSpec{Image: "x"}}), []string{"image mounts"}},
		{"bidirectional", mount(&runtimeapi.Mount{
			ContainerPath: "/a", HostPath: "/tmp", Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL,
		}), []string{"bidirectional"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := r.CreateContainer(t.Context(), sandbox, shell("true", c.change), nil)
			if cri.Class(err) != runtime.ErrInvalid {
				t.Fatalf("%v, want class %v", err, runtime.ErrInvalid)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not mention %q", err, s)
				}
			}
			if strings.Contains(err.Error(), "hidden") {
				t.Errorf("%q shows a value", err)
			}
		})
	}
	if _, err := r.RunPodSandbox(t.Context(), sandboxConfig(t), "gvisor"); cri.Class(err) != runtime.ErrInvalid {
		t.Errorf("unknown runtime handler: %v", err)
	}
	list, err := r.ListContainers(t.Context(), nil)
	must(t, err)
	if len(list) != 0 {
		t.Errorf("refused containers exist: %v", list)
	}
}

// An image is the host or a folder; anything else fails with words that help.
func TestImageIsTheHostOrAFolder(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	file := filepath.Join(t.TempDir(), "file")
	touch(t, file)
	for _, name := range []string{"", "nginx", "nginx:latest", "Host", "/no/such/folder", "relative/folder", "/tmp/..", "/", "/tmp/\x01", file} {
		_, err := r.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: name}, nil, nil)
		if err == nil || !strings.Contains(err.Error(), `"host"`) || !strings.Contains(err.Error(), "absolute path of a folder") {
			t.Errorf("pull of %q: %v", name, err)
		}
		response, err := r.ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: name}, false)
		if err != nil || response.GetImage() != nil {
			t.Errorf("status of %q: %v, %v", name, response, err)
		}
		sandbox := runSandbox(t, r)
		if _, err := r.CreateContainer(t.Context(), sandbox, shell("true", func(c *runtimeapi.ContainerConfig) { c.Image.Image = name }), nil); err == nil {
			t.Errorf("a container of image %q was created", name)
		}
		must(t, r.RemovePodSandbox(t.Context(), sandbox))
	}
	for _, name := range []string{"host", "host:latest"} {
		ref, err := r.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: name}, nil, nil)
		if err != nil || ref != "host" {
			t.Errorf("pull of %s: %q, %v", name, ref, err)
		}
	}
	if err := r.RemoveImage(t.Context(), &runtimeapi.ImageSpec{Image: "host"}); cri.Class(err) != runtime.ErrFailedPrecondition {
		t.Errorf("remove the host: %v", err)
	}
}
