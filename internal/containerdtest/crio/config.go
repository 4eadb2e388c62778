package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/podwright/podwright/internal/containerdtest/cni"
)

// layout names the files of one CRI-O, all below its root folder.
type layout struct {
	root string
	// logFile is where the daemon writes its log; "" means a file in the folder.
	logFile string
}

func (l layout) file(parts ...string) string {
	return filepath.Join(append([]string{l.root}, parts...)...)
}
func (l layout) config() string { return l.file("crio.conf") }
func (l layout) log() string    { return cmp.Or(l.logFile, l.file("log")) }
func (l layout) oci() string    { return l.file("oci.sh") }
func (l layout) socket() string { return l.file("crio.sock") }

// home is the daemon's home, where it looks for the configuration of registries.
func (l layout) home() string { return l.file("home") }

// endOfLog returns the last lines that the daemon wrote, as far as they can be read.
func (l layout) endOfLog() string {
	text, err := os.ReadFile(l.log())
	if err != nil {
		return err.Error()
	}
	return string(text[max(len(text)-4096, 0):])
}

// The network is one that no private containerd of the tests uses.
const (
	bridge = "pwcrio0"
	subnet = "10.87.0.0/16"
)

// ociWrapper returns a script for use as the OCI runtime on a machine that cannot lower a process's
// OOM score, which is the case in many containers. Without it, every pod that is not best-effort
// would fail.
func (l layout) ociWrapper(oci string) string {
	return `#!/bin/sh
last=
for a in "$@"; do
	case $last in
	-b | --bundle) sed -i 's/"oomScoreAdj": *-[0-9]*/"oomScoreAdj":0/g' "$a/config.json" ;;
	esac
	last=$a
done
exec ` + oci + ` "$@"
`
}

// write creates the folders and every file that the daemon reads. The machine's own container
// configuration is not used.
func (l layout) write(t tools, pauseImage string) error {
	files := map[string]string{
		l.config():                        l.crioConfig(t, pauseImage),
		l.file("policy.json"):             `{"default": [{"type": "insecureAcceptAnything"}]}`,
		l.file("storage.conf"):            "[storage]\ndriver = \"overlay\"\n",
		l.oci():                           l.ociWrapper(t.oci),
		l.file("cni", "10-crio.conflist"): cni.Network{Name: "podwright-crio", Bridge: bridge, Leases: l.file("ipam"), Subnet: subnet}.Conflist(),
		l.file("conf.d", "empty.conf"):    "",
		l.file("policies", "none.json"):   `{"default": [{"type": "insecureAcceptAnything"}]}`,
		// Registries on loopback are the tests' own.
		filepath.Join(l.home(), ".config", "containers", "registries.conf"): "[[registry]]\nlocation = \"127.0.0.1\"\ninsecure = true\n",
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o711); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return os.Chmod(l.oci(), 0o755)
}

// crioConfig is the daemon's configuration. The event stream is on, so that the tests cover it.
func (l layout) crioConfig(t tools, pauseImage string) string {
	return strings.Join([]string{
		`[crio]`,
		`root = ` + quote(l.file("storage")),
		`runroot = ` + quote(l.file("run")),
		`storage_driver = "overlay"`,
		`log_dir = ` + quote(l.file("logs")),
		`version_file = ` + quote(l.file("version")),
		`clean_shutdown_file = ` + quote(l.file("clean.shutdown")),
		`[crio.api]`,
		`listen = ` + quote(l.socket()),
		`[crio.runtime]`,
		`default_runtime = "oci"`,
		`cgroup_manager = "cgroupfs"`,
		`pinns_path = ` + quote(t.pinns),
		`namespaces_dir = ` + quote(l.file("namespaces")),
		`container_exits_dir = ` + quote(l.file("exits")),
		`container_attach_socket_dir = ` + quote(l.file("attach")),
		`hooks_dir = []`,
		`enable_criu_support = false`,
		`enable_pod_events = true`,
		`irqbalance_config_restore_file = "disable"`,
		`[crio.runtime.runtimes.oci]`,
		`runtime_path = ` + quote(l.oci()),
		`runtime_root = ` + quote(l.file("oci")),
		`monitor_path = ` + quote(t.conmon),
		`monitor_cgroup = "pod"`,
		`[crio.image]`,
		`pause_image = ` + quote(pauseImage),
		`pause_command = "/pause"`,
		`signature_policy = ` + quote(l.file("policy.json")),
		`signature_policy_dir = ` + quote(l.file("policies")),
		`[crio.network]`,
		`network_dir = ` + quote(l.file("cni")),
		`plugin_dirs = [` + quote(t.cni) + `]`,
		`[crio.nri]`,
		`enable_nri = false`,
		``,
	}, "\n")
}

// quote writes a TOML basic string. Paths here hold no control characters.
func quote(s string) string { return fmt.Sprintf("%q", s) }
