package containerdtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/containerdtest/cni"
)

// layout names the files of one instance, all below its root folder.
type layout struct{ root string }

func (l layout) config() string { return filepath.Join(l.root, "config.toml") }
func (l layout) socket() string { return filepath.Join(l.root, "c.sock") }
func (l layout) log() string    { return filepath.Join(l.root, "containerd.log") }
func (l layout) data() string   { return filepath.Join(l.root, "data") }
func (l layout) state() string  { return filepath.Join(l.root, "state") }
func (l layout) cni() string    { return filepath.Join(l.root, "cni") }
func (l layout) plugins() string {
	return filepath.Join(l.root, "plugins")
}
func (l layout) ipam() string   { return filepath.Join(l.root, "ipam") }
func (l layout) images() string { return filepath.Join(l.root, "images.tar") }
func (l layout) bundles() string {
	return filepath.Join(l.state(), "io.containerd.runtime.v2.task", "k8s.io")
}

// maxSocketPath is the longest path that fits into a unix socket address, without the final zero.
const maxSocketPath = 107

// mount puts the instance on its own file system in memory: containerd starts faster without
// waiting for a disk, and only the instance changes the usage that it reports. Memory is used only
// as it fills up.
func (l layout) mount() error {
	if err := unix.Mount("podwright-test", l.root, "tmpfs", 0, "size=2g,mode=0711"); err != nil {
		return fmt.Errorf("mount a tmpfs on %s: %w", l.root, err)
	}
	return nil
}

// write creates the folders, containerd's configuration and the CNI network.
func (l layout) write(s *slot, t *tools) error {
	if len(l.socket()) > maxSocketPath {
		return fmt.Errorf("socket path %s is over %d bytes; set TMPDIR to a shorter folder", l.socket(), maxSocketPath)
	}
	for _, folder := range []string{l.data(), l.state(), l.cni(), l.ipam(), l.plugins()} {
		if err := os.MkdirAll(folder, 0o711); err != nil {
			return err
		}
	}
	for _, plugin := range cniPlugins {
		if err := os.Symlink(filepath.Join(t.cni, plugin), filepath.Join(l.plugins(), plugin)); err != nil {
			return err
		}
	}
	snapshotter, err := snapshotterFor(l.root)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.config(), []byte(l.containerdConfig(snapshotter)), 0o600); err != nil {
		return err
	}
	conflist := filepath.Join(l.cni(), "10-podwright.conflist")
	return os.WriteFile(conflist, []byte(cni.Network{Name: s.network(), Bridge: s.bridge(), Leases: l.ipam(), Subnet: s.subnet()}.Conflist()), 0o600)
}

// containerdConfig is written by hand, because a TOML library would be a dependency for one page of
// text. containerd 1.5 and later, including 2.x, read version 2. Plugins that probe for kernel
// modules or write outside the folder are off.
func (l layout) containerdConfig(snapshotter string) string {
	const cri = `plugins."io.containerd.grpc.v1.cri"`
	return strings.Join([]string{
		`version = 2`,
		`root = ` + quote(l.data()),
		`state = ` + quote(l.state()),
		`disabled_plugins = [`,
		`  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",`,
		`  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",`,
		`  "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing",`,
		`  "io.containerd.tracing.processor.v1.otlp", "io.containerd.nri.v1.nri",`,
		`]`,
		`[grpc]`,
		`  address = ` + quote(l.socket()),
		`[` + cri + `]`,
		`  sandbox_image = ` + quote(pauseReference),
		`  disable_tcp_service = true`,
		// Without CAP_SYS_RESOURCE a negative score cannot be set and every
		// sandbox would fail to start.
		`  restrict_oom_score_adj = true`,
		`  netns_mounts_under_state_dir = true`,
		`[` + cri + `.cni]`,
		`  bin_dir = ` + quote(l.plugins()),
		`  conf_dir = ` + quote(l.cni()),
		`[` + cri + `.containerd]`,
		`  snapshotter = ` + quote(snapshotter),
		`  default_runtime_name = "runc"`,
		`[` + cri + `.containerd.runtimes.runc]`,
		`  runtime_type = "io.containerd.runc.v2"`,
		``,
	}, "\n")
}

// quote writes a TOML basic string. Paths here hold no control characters, so
// Go's escapes and TOML's agree.
func quote(s string) string { return fmt.Sprintf("%q", s) }

// snapshotterFor avoids an overlay on an overlay, which kernels refuse (the
// tests may run inside a container).
func snapshotterFor(folder string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return "", fmt.Errorf("file system of %s: %w", folder, err)
	}
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native", nil
	}
	return "overlayfs", nil
}
