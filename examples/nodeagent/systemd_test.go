package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/patience"
)

//go:embed nodeagent.service
var unit string

// TestServiceIsTold: systemd learns that the agent is ready, how it is, that it lives, and what its end waits for; programs of
// pods do not learn where systemd listens.
func TestServiceIsTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(shortDir(t), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var said []string
	hear := func(want string) {
		t.Helper()
		await(t, "systemd to hear "+want, func() error {
			message := make([]byte, 4096)
			if err := conn.SetReadDeadline(time.Now().Add(patience.Of(time.Second))); err != nil {
				return err
			}
			n, err := conn.Read(message)
			said = append(said, string(message[:n]))
			if err != nil || !strings.Contains(string(message[:n]), want) {
				return fmt.Errorf("%q, %w", said[max(len(said)-3, 0):], errors.Join(err))
			}
			return nil
		})
	}
	manifests := t.TempDir()
	writeManifest(t, manifests, "deaf.yaml", pod("deaf", "host", "trap '' TERM; env; while :; do sleep 0.1; done", "  terminationGracePeriodSeconds: 7"))
	a := startAgentIn(t, []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=200000"}, "--manifests", manifests, "--root", t.TempDir(), "--drain")
	hear("READY=1")
	a.awaitPhase("deaf", v1.PodRunning)
	hear("STATUS=1 pods\nWATCHDOG=1")
	var environment string
	await(t, "the pod to ignore SIGTERM and say its environment", func() error {
		if _, environment, _ = a.tells("logs", "deaf"); !strings.Contains(environment, "PATH=") {
			return fmt.Errorf("its log is %q", environment)
		}
		return nil
	})
	if strings.Contains(environment, "NOTIFY_SOCKET") {
		t.Errorf("the environment of a pod: %s", environment)
	}
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hear("STOPPING=1")
	hear("STATUS=Waiting for pod default/deaf-n1: ")
	if code := a.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestStuckLoop(t *testing.T) {
	for _, c := range []struct {
		p     podwright.Problem
		stuck bool
	}{
		{podwright.Problem{Kind: "loop", Severity: "unhealthy"}, true},
		{podwright.Problem{Kind: "runtime", Severity: "unhealthy"}, false},
		{podwright.Problem{Kind: "loop", Severity: "listed"}, false},
	} {
		if got := stuckLoop([]podwright.Problem{c.p}); (got != "") != c.stuck {
			t.Errorf("%+v: %q", c.p, got)
		}
	}
}

// TestJournal: on the journal a line begins with its priority and has no time.
func TestJournal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	stream := fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
	if !isJournal(f, stream) || isJournal(f, "1:1") || isJournal(f, "") || isJournal(&bytes.Buffer{}, stream) {
		t.Error("the journal is not known")
	}
	var out bytes.Buffer
	log := slog.New(newJournalHandler(&out, slog.LevelInfo)).With("a", 1).WithGroup("g")
	log.Warn("careful", "time", "now")
	log.Error("broken")
	log.Info("well\nsaid")
	log.Debug("nothing")
	if want := "<4>msg=careful a=1 g.time=now\n<3>msg=broken a=1\n<6>msg=\"well\\nsaid\" a=1\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}

// TestUnit: pods outlive the agent, the runtime sees the mounts of volumes, and systemd knows every directive.
func TestUnit(t *testing.T) {
	for _, want := range []string{"Type=notify", "KillMode=process", "Restart=on-failure", "NoNewPrivileges=yes", "ExecStart=/usr/local/bin/nodeagent run --config /etc/nodeagent/nodeagent.yaml"} {
		if !slices.Contains(strings.Split(unit, "\n"), want) {
			t.Errorf("the unit lacks %s", want)
		}
	}
	for _, hiding := range []string{"ProtectSystem", "ProtectHome", "ProtectKernelTunables", "PrivateTmp", "PrivateDevices", "ReadOnlyPaths", "DynamicUser", "RestrictSUIDSGID"} {
		if strings.Contains(unit, "\n"+hiding+"=") {
			t.Errorf("%s: the agent's mounts or files would not be as pods need them", hiding)
		}
	}
	settings, err := os.ReadFile("nodeagent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "nodeagent.yaml")
	all := regexp.MustCompile(`(?m)^#([a-z-]+:)`).ReplaceAll(settings, []byte("$1")) // what is in comments is an offer
	for _, text := range [][]byte{settings, all} {
		if err := os.WriteFile(config, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := parse([]string{"--config", config}); err == nil || !strings.Contains(err.Error(), "--manifests: stat /etc/nodeagent/manifests") {
			t.Errorf("nodeagent.yaml: %v", err)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Logf("not verified: %v", err)
		return
	}
	file := filepath.Join(t.TempDir(), "nodeagent.service")
	if err := os.WriteFile(file, []byte(strings.Replace(unit, "/usr/local/bin/nodeagent", "/bin/true", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || strings.Contains(string(out), "nodeagent.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
