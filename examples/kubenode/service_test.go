package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/podwright/podwright/kube"
)

// unit is a part of the test binary, which `make kube-up` runs elsewhere.
//
//go:embed kubenode.service
var unit string

// directive is what kubenode.service says for a name, "" for nothing.
func directive(t *testing.T, name string) string {
	t.Helper()
	var said string
	for line := range strings.Lines(unit) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			said = value
		}
	}
	return said
}

// confined is a command line that runs as kubenode.service would: with its capabilities alone, and
// no way to more. The tests on a real cluster run kubenode so.
func confined(t *testing.T, program string, args ...string) []string {
	t.Helper()
	var bounds strings.Builder
	bounds.WriteString("-all")
	for name := range strings.FieldsSeq(directive(t, "CapabilityBoundingSet")) {
		bounds.WriteString(",+" + strings.ToLower(strings.TrimPrefix(name, "CAP_")))
	}
	if directive(t, "NoNewPrivileges") != "yes" {
		t.Error("kubenode.service allows new privileges")
	}
	return append([]string{"setpriv", "--bounding-set=" + bounds.String(), "--no-new-privs", "--", program}, args...)
}

// KF5: pods outlive the agent, the runtime sees the mounts of volumes, and systemd knows
// every directive.
func TestService(t *testing.T) {
	for name, want := range map[string]string{"KillMode": "process", "Restart": "always", "StartLimitIntervalSec": "0", "RestartPreventExitStatus": strconv.Itoa(codeOf(fmt.Errorf("kube: %w", kube.ErrNodeGone)))} {
		if got := directive(t, name); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
	for _, hiding := range []string{
		"ProtectSystem", "ProtectHome", "ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs", "ProtectControlGroups", "ProtectProc", "ProcSubset",
		"PrivateTmp", "PrivateDevices", "PrivateMounts", "PrivateNetwork", "PrivateUsers", "ReadOnlyPaths", "ReadWritePaths", "InaccessiblePaths", "NoExecPaths", "ExecPaths",
		"BindPaths", "BindReadOnlyPaths", "TemporaryFileSystem", "RootDirectory", "RootImage", "DynamicUser", "MountFlags", "StateDirectory", "LogNamespace", "RestrictSUIDSGID",
	} {
		if got := directive(t, hiding); got != "" {
			t.Errorf("%s=%s: the agent's mounts or files would not be as pods need them", hiding, got)
		}
	}
	if line := directive(t, "ExecStart"); !strings.HasSuffix(line, " --config /etc/kubenode/kubenode.yaml") {
		t.Errorf("ExecStart=%s", line)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Logf("not verified: %v", err)
		return
	}
	file := filepath.Join(t.TempDir(), "kubenode.service")
	if err := os.WriteFile(file, []byte(strings.Replace(unit, "/usr/local/bin/kubenode", "/bin/true", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || strings.Contains(string(out), "kubenode.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
