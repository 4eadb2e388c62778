package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// lockedBuffer is a buffer that a command writes to and a test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestAgentCannotBeReached: each way says what to do, in one line, with code 3.
func TestAgentCannotBeReached(t *testing.T) {
	dir := shortDir(t)
	stale := filepath.Join(dir, "stale")
	l, err := net.Listen("unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	if err := writeToken(token, strings.Repeat("x", 26)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--root", dir}, "no agent runs here: there is no socket " + dir + "/nodeagent.sock; start it with nodeagent run"},
		{[]string{"--listen", "unix:" + stale}, "the one that made the socket " + stale + " was killed"},
		{[]string{"--listen", closed.Addr().String(), "--listen-token-file", token}, "no agent runs at " + closed.Addr().String()},
		{[]string{"--listen", closed.Addr().String(), "--root", dir}, "--listen-token-file: open " + dir + "/nodeagent.token: no such file"},
	} {
		for _, name := range []string{"pods", "problems"} {
			code, out, problems := command(t, append([]string{name}, c.args...)...)
			if code != 3 || out != "" || !strings.Contains(problems, c.want) || strings.Count(problems, "\n") != 1 {
				t.Errorf("%s %q: code %d, %q, want %q", name, c.args, code, problems, c.want)
			}
		}
	}
	api := &apiClient{address: address{socket: "/run/s"}}
	if err := api.unreachable(&net.OpError{Err: os.NewSyscallError("connect", os.ErrPermission)}); !strings.Contains(err.Error(), "use sudo") {
		t.Errorf("without permission: %v", err)
	}
}

// TestOtherVersions: an agent that is older or newer, or something else that listens there, is told from this
// one before its answer is used.
func TestOtherVersions(t *testing.T) {
	for version, want := range map[string]string{
		"":    "older than this program, or no nodeagent: it speaks version 0",
		"x":   `it speaks version "x"`,
		"0":   "restart the agent with this program (its pods go on)",
		"999": "the agent is newer than this program: it speaks version 999",
		"1":   "the answer cannot be read",
	} {
		path := filepath.Join(shortDir(t), "s")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if version != "" {
				w.Header().Set(versionHeader, version)
			}
			fmt.Fprint(w, "<html>")
		})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		code, out, problems := command(t, "pods", "--listen", "unix:"+path)
		if code != 3 || out != "" || !strings.Contains(problems, want) || strings.Count(problems, "\n") != 1 {
			t.Errorf("version %q: code %d, %q, want %q", version, code, problems, want)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	}
}

// TestClientsThatDoNotRead: watches that are not read hold up neither the agent nor its end, and beyond
// the limit more are refused.
func TestClientsThatDoNotRead(t *testing.T) {
	manifests := t.TempDir()
	writeManifest(t, manifests, "web.yaml", pod("web", "host", "exec sleep 1000", "  terminationGracePeriodSeconds: 1"))
	a := startAgent(t, "--manifests", manifests, "--root", t.TempDir(), "--drain")
	a.awaitPhase("web", v1.PodRunning)
	for range maxStreams {
		conn, err := net.Dial("unix", strings.TrimPrefix(a.listen, "unix:"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprint(conn, "GET /pods?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		// It has a place now; it reads nothing more.
		first := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(conn, first); err != nil || string(first) != "HTTP/1.1 200" {
			t.Fatalf("a watch: %q, %v", first, err)
		}
	}
	if response, err := a.api.open(t.Context(), http.MethodGet, "/pods?watch=true"); err == nil {
		t.Error("one watch too many is not refused", response.Body.Close())
	} else if !strings.Contains(err.Error(), "too many clients") {
		t.Error(err)
	}
	if code, out, problems := a.tells("pods"); code != 0 || !strings.Contains(out, "web-n1") {
		t.Errorf("pods: %d %s%s", code, out, problems)
	}
	began := time.Now()
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	t.Logf("ended after %v", time.Since(began).Round(time.Millisecond))
}
