package main

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A socket is closed to others whatever the umask is, and only one agent serves it.
func TestSocketBelongsToOneAgentAlone(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	before := syscall.Umask(0)
	l, err := listenSocket(t.Context(), path)
	syscall.Umask(before)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, path + ".lock"} {
		if info, err := os.Lstat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	if _, err := listenSocket(t.Context(), path); !errors.Is(err, errSocketInUse) {
		t.Errorf("a second agent: %v", err)
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Errorf("the second agent disturbed the first: %v", err)
	} else {
		conn.Close()
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
}

// A socket that a killed agent left is replaced; one that answers and other files are not.
func TestOnlyAStaleSocketIsReplaced(t *testing.T) {
	dir := shortDir(t)
	stale, live, file := filepath.Join(dir, "stale"), filepath.Join(dir, "live"), filepath.Join(dir, "file")
	other, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	other.SetUnlinkOnClose(false)
	other.Close()
	l, err := listenSocket(t.Context(), stale)
	if err != nil {
		t.Fatalf("stale: %v", err)
	}
	if conn, err := net.Dial("unix", stale); err != nil {
		t.Error(err)
	} else {
		conn.Close()
	}
	l.Close()

	serving, err := net.Listen("unix", live)
	if err != nil {
		t.Fatal(err)
	}
	defer serving.Close()
	if _, err := listenSocket(t.Context(), live); err == nil || !strings.Contains(err.Error(), "another program serves this socket") {
		t.Errorf("live: %v", err)
	}
	if err := os.WriteFile(file, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenSocket(t.Context(), file); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("a file: %v", err)
	}
	for _, path := range []string{live, file} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}

// An agent on a disk that takes no socket runs its pods without the local API, and says so.
func TestReadOnlyDiskCostsTheSocketOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a disk needs root")
	}
	dir := shortDir(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, ""); err != nil {
		t.Skipf("mounting a disk is not allowed here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	metrics, err := newMetrics()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	a := &agent{log: slog.New(slog.NewTextHandler(&log, nil)), metrics: metrics}
	a.options.api.addresses = []address{{socket: filepath.Join(dir, "s")}, {tcp: "127.0.0.1:0"}}
	a.options.api.tokenFile, a.options.api.madeToken = filepath.Join(dir, "token"), true
	if err := a.openAPI(t.Context()); err != nil || len(a.listeners) != 0 {
		t.Errorf("%d listeners, %v", len(a.listeners), err)
	}
	if strings.Count(log.String(), "No local API") != 2 || strings.Count(log.String(), "read-only") != 2 {
		t.Errorf("the log says %q", &log)
	}
}

// Who may use a socket.
func TestPeer(t *testing.T) {
	const user = 1000
	for _, c := range []struct {
		p   peer
		may bool
	}{{peer{uid: user}, true}, {peer{uid: 0}, true}, {peer{uid: 1001}, false}, {peer{err: errors.New("unknown")}, false}} {
		if c.p.may(user) != c.may {
			t.Errorf("%+v may: %v, want %v", c.p, !c.may, c.may)
		}
	}
}

// Another user learns nothing from an agent: the socket is closed to him, and even an open one
// answers only its own user and root.
func TestOtherUsersAreTurnedAway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("running a client as another user needs root")
	}
	t.Setenv("TMPDIR", "/tmp") // the other user must get to the socket
	root := shortDir(t)
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	listen := "unix:" + filepath.Join(root, "nodeagent.sock")
	a := startAgent(t, "--manifests", t.TempDir(), "--root", root, "--listen", listen)
	asOther := func() (code int, stdout, stderr string) {
		t.Helper()
		client := exec.Command("/proc/self/exe", "cleanup", "--plan", "--root", root)
		client.Dir, client.Env = "/", []string{asAgent + "=1"}
		client.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		var out, problems bytes.Buffer
		client.Stdout, client.Stderr = &out, &problems
		if err := client.Run(); client.ProcessState == nil {
			t.Fatal(err)
		}
		return client.ProcessState.ExitCode(), out.String(), problems.String()
	}
	if code, out, problems := asOther(); code != codeUnreachable || out != "" || !strings.Contains(problems, "use sudo, or log in as that user") {
		t.Errorf("another user: exit code %d, %q, %q", code, out, problems)
	}
	if err := os.Chmod(filepath.Join(root, "nodeagent.sock"), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, out, problems := asOther(); code != codeUnreachable || out != "" || !strings.Contains(problems, "a peer with user 65534 is neither") {
		t.Errorf("another user on an open socket: exit code %d, %q, %q", code, out, problems)
	}
	if code, body := a.get("/pods"); code != 200 || !strings.Contains(body, "PodList") {
		t.Errorf("root: %d %s", code, body)
	}
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
