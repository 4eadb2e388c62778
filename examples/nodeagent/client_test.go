package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime/process"
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

// askingCommands is one line for each way of asking an agent, but for version, which also answers without one.
var askingCommands = []string{
	"pods", "pods -w", "explain web", "events", "events -w", "logs web", "logs -f web", "problems", "exec web -- date",
	"restart web", "evict web", "drain --yes", "cleanup --plan", "web",
}

// withFlags is a command line with flags after the command.
func withFlags(line string, flags ...string) []string {
	words := strings.Fields(line)
	return slices.Concat(words[:1], flags, words[1:])
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
	file, folder := filepath.Join(dir, "file"), filepath.Join(dir, "folder")
	if err := errors.Join(os.WriteFile(file, []byte("text"), 0o600), os.Mkdir(folder, 0o700)); err != nil {
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
		{[]string{"--listen", "unix:" + file}, file + " is no socket, so no agent answers there"},
		{[]string{"--listen", "unix:" + folder}, folder + " is no socket, so no agent answers there"},
		{[]string{"--root", file}, "there can be no socket " + file + "/nodeagent.sock: a part of its path is no folder"},
		{[]string{"--listen", "unix:" + stale}, "the one that made the socket " + stale + " was killed"},
		{[]string{"--listen", closed.Addr().String(), "--listen-token-file", token}, "no agent runs at " + closed.Addr().String()},
		{[]string{"--listen", closed.Addr().String(), "--root", dir}, "--listen-token-file: open " + dir + "/nodeagent.token: no such file"},
	} {
		for _, line := range askingCommands {
			code, out, problems := command(t, withFlags(line, c.args...)...)
			if code != 3 || out != "" || !strings.Contains(problems, c.want) || strings.Count(problems, "\n") != 1 {
				t.Errorf("%s %q: code %d, %q, want %q", line, c.args, code, problems, c.want)
			}
		}
	}
}

// TestSocketOfAnother: a user who is neither root nor the agent's is told so, by the socket's mode, and by the
// agent if the mode was changed.
func TestSocketOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it takes root to be two users")
	}
	a := startAgent(t, "--manifests", t.TempDir(), "--root", t.TempDir(), "--drain")
	dir := shortDir(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	program := filepath.Join(dir, "nodeagent")
	if err := errors.Join(err, os.WriteFile(program, text, 0o755), os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(socketOf(a)), 0o755)); err != nil { //nolint:gosec // another user runs it
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode os.FileMode
		want string
	}{
		{socketMode, "the socket " + socketOf(a) + " is for root and the user that the agent runs as; use sudo, or log in as that user"},
		{0o666, "refuses: this is for root and user 0; a peer with user 65534 is neither"},
	} {
		if err := os.Chmod(socketOf(a), c.mode); err != nil {
			t.Fatal(err)
		}
		for _, line := range askingCommands {
			cmd := exec.Command(program, withFlags(line, "--listen", a.listen)...)
			cmd.Env = append(os.Environ(), asAgent+"=1", "HOME=/nonexistent")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != codeUnreachable || !strings.Contains(string(out), c.want) || strings.Count(string(out), "\n") != 1 {
				t.Errorf("%s with mode %v: code %d, %s", line, c.mode, code, out)
			}
		}
	}
	if code := a.terminate(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
}

func socketOf(a *testAgent) string { return strings.TrimPrefix(a.listen, "unix:") }

// TestAgentThatHangs: no command waits forever, also not one whose answer has begun.
func TestAgentThatHangs(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	writeManifest(t, manifests, "web.yaml", pod("web", "host", "echo begun; exec sleep 1000", "  terminationGracePeriodSeconds: 1000"))
	args := []string{"--manifests", manifests, "--root", t.TempDir()}
	drainAtEnd(t, args...)
	a := startAgent(t, args...)
	a.awaitPhase("web", v1.PodRunning)
	timeout := patience.Of(2 * time.Second).String() // for an agent that is well, too
	want := "has not answered within " + timeout + ": it, or the container runtime, hangs; its log says more"
	begun := map[string]*lockedBuffer{"pods -w": {}, "events -w": {}, "logs -f web": {}, "exec web -- sh -c echo;sleep${IFS}60": {}}
	type end struct {
		line, problems string
		code           int
	}
	ends := make(chan end, len(begun))
	for line, out := range begun {
		go func() {
			var problems lockedBuffer
			code := run(withFlags(line, "--listen", a.listen, "--timeout", timeout), process.Supervisor{}, out, &problems)
			ends <- end{line, problems.String(), code}
		}()
	}
	for line, out := range begun {
		await(t, line+" to begin", func() error {
			if out.String() == "" {
				return errors.New("nothing yet")
			}
			return nil
		})
	}
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for range begun {
		if e := <-ends; e.code != codeUnreachable || !strings.Contains(e.problems, want) || strings.Count(e.problems, "\n") != 1 {
			t.Errorf("%s, begun: code %d, %q", e.line, e.code, e.problems)
		}
	}
	var asked sync.WaitGroup
	for _, line := range askingCommands {
		asked.Go(func() {
			code, _, problems := command(t, withFlags(line, "--listen", a.listen, "--timeout", timeout)...)
			if code != codeUnreachable || !strings.Contains(problems, want) || strings.Count(problems, "\n") != 1 {
				t.Errorf("%s: code %d, %q", line, code, problems)
			}
		})
	}
	asked.Wait()
	a.kill() // what it was asked for meanwhile is not what this is about
}

// TestFullDisk: output that cannot be written ends each command with a code that is not 0, and says so.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	writeManifest(t, manifests, "web.yaml", pod("web", "host", "echo begun; exec sleep 1000"))
	writeManifest(t, manifests, "bad.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {containers: []}\n")
	root := t.TempDir()
	a := startAgent(t, "--manifests", manifests, "--root", root, "--web", "127.0.0.1:0")
	a.awaitPhase("web", v1.PodRunning)
	lines := []string{
		"pods", "pods -o json", "pods -o yaml", "pods -o wide", "pods -o name", "pods -w", "pods -w -o json", "explain web", "explain web -o json",
		"events", "events -o json", "events -w", "logs web", "logs -f web", "problems", "problems -o json", "exec web -- echo text", "restart web",
		"cleanup --plan", "cleanup --plan -o json", "version", "version -o json", "web", "evict web", "drain --yes",
	}
	try := func(args ...string) {
		t.Helper()
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}
		defer full.Close()
		var problems lockedBuffer
		code := run(args, process.Supervisor{}, full, &problems)
		if code == 0 || !strings.Contains(problems.String(), "no space left on device") {
			t.Errorf("%q: code %d, %q", args, code, problems.String())
		}
	}
	await(t, "the pod's log", func() error { // without a line, nothing has to be written
		if _, out, _ := a.tells("logs", "web"); !strings.Contains(out, "begun") {
			return errors.New(out)
		}
		return nil
	})
	await(t, "the refused manifest", func() error {
		if _, out, _ := a.tells("problems"); !strings.Contains(out, "bad.yaml") {
			return errors.New(out)
		}
		return nil
	})
	try("--validate", manifests, "--node-name", "n1")
	try("checkpoint", "list", "--root", root)
	try("checkpoint", "show", string(a.pods()["web"].UID), "--root", root)
	for _, line := range lines {
		try(withFlags(line, "--listen", a.listen)...)
	}
	if code := a.wait(); code != 0 { // of the drain
		t.Errorf("the agent ended with %d", code)
	}
}

// answersAs serves what is not quite an agent, and returns how to reach it.
func answersAs(t *testing.T, handle http.HandlerFunc) (listen string) {
	t.Helper()
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: handle}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
	return "unix:" + path
}

// TestOtherVersions: an agent that is older or newer, or something else that listens there, is told from this
// one before its answer is used.
func TestOtherVersions(t *testing.T) {
	for version, want := range map[string]string{
		"":    "older than this program, or no nodeagent: it speaks version 0",
		"x":   `it speaks version "x"`,
		"0":   "restart the agent with this program (its pods go on)",
		"999": "the agent is newer than this program: it speaks version 999",
	} {
		listen := answersAs(t, func(w http.ResponseWriter, _ *http.Request) {
			if version != "" {
				w.Header().Set(versionHeader, version)
			}
			fmt.Fprint(w, "<html>")
		})
		for _, line := range askingCommands {
			code, out, problems := command(t, withFlags(line, "--listen", listen)...)
			if code != codeUnreachable || out != "" || !strings.Contains(problems, want) || strings.Count(problems, "\n") != 1 {
				t.Errorf("%s, version %q: code %d, %q, want %q", line, version, code, problems, want)
			}
		}
	}
}

// TestVersionsOfOneAPI: agents of one version of the API may know fewer paths, parameters and fields than a client, or more.
func TestVersionsOfOneAPI(t *testing.T) {
	older := http.NewServeMux() // knows neither progress nor a page, and has no word for what it does not know
	older.HandleFunc("POST /evict/{namespace}/{name}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"evicted": "default/web"}`) })
	older.HandleFunc("POST /restart/{namespace}/{name}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"restarted": "default/web"}`) })
	older.HandleFunc("POST /problems", func(http.ResponseWriter, *http.Request) {})
	listen := answersAs(t, func(w http.ResponseWriter, r *http.Request) { versioned(older).ServeHTTP(w, r) })
	for _, c := range []struct {
		line, out, problems string
		code                int
	}{
		{"evict web", "default/web is evicted\n", "", 0},
		{"restart web", "default/web is restarted\n", "", 0},
		{"web", "", "knows no GET /web, so it is older than this program: restart it with this program (its pods go on)", 3},
		{"problems", "", "knows no GET /problems, so it is older", 3},
		{"exec web -- date", "", "knows no GET /exec/default/web, so it is older", 3},
	} {
		code, out, problems := command(t, withFlags(c.line, "--listen", listen)...)
		if code != c.code || out != c.out || !strings.Contains(problems, c.problems) {
			t.Errorf("an older agent, %s: code %d, %q %q", c.line, code, out, problems)
		}
	}
	newer := answersAs(t, func(w http.ResponseWriter, r *http.Request) {
		versioned(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, `{"kind": "PodList", "more": {}, "items": [{"metadata": {"name": "web", "namespace": "default"}, "status": {"phase": "Running", "more": [1]}}]}`)
		})).ServeHTTP(w, r)
	})
	if code, out, problems := command(t, "pods", "web", "--listen", newer); code != 0 || !strings.Contains(out, "Running") {
		t.Errorf("a newer agent: code %d, %q %q", code, out, problems)
	}
	a := startAgent(t, "--manifests", t.TempDir(), "--root", t.TempDir(), "--drain")
	for _, c := range []struct{ method, path string }{{"GET", "/fly"}, {"POST", "/pods"}, {"DELETE", "/drain"}, {"GET", "/restart/default/web"}} {
		_, err := a.api.open(t.Context(), c.method, c.path)
		if want := fmt.Sprintf("this agent, with version 1 of the API, knows no %s %s", c.method, c.path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("what this agent does not know: %v", err)
		}
	}
	if code := a.terminate(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
}

// TestLongRefusal: a refusal of any length is told whole, with its code, also by exec, whose WebSocket keeps only its beginning.
func TestLongRefusal(t *testing.T) {
	for status, code := range map[int]int{http.StatusNotFound: codeNotFound, http.StatusBadRequest: codeUsage, http.StatusConflict: codeFailed} {
		for _, length := range []int{10, 1500, 3000, 30000} {
			want := "there is no pod \"web\"" + strings.Repeat(".", length) + "!"
			a := &agent{log: slog.New(slog.DiscardHandler)}
			listen := answersAs(t, versioned(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { a.fail(w, status, errors.New(want)) })).ServeHTTP)
			for _, line := range []string{"exec web -- date", "logs web"} {
				if got, out, problems := command(t, withFlags(line, "--listen", listen)...); got != code || out != "" || !strings.Contains(problems, want) {
					t.Errorf("%s, status %d, %d bytes: code %d, %.200q", line, status, length, got, problems)
				}
			}
		}
	}
}

// TestBrokenAnswers: garbage, and answers that end too early, are no success and name what answers.
func TestBrokenAnswers(t *testing.T) {
	asHeader := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(versionHeader, strconv.Itoa(apiVersion))
			fmt.Fprint(w, text)
		}
	}
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, text) // the client may have enough of it
			_ = conn.Close()
		}
	}
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\n%s: %d\r\n", versionHeader, apiVersion)
	asJSON := []string{"pods", "pods -w", "events", "events -w", "problems", "restart web", "evict web", "drain --yes", "web"}
	for _, c := range []struct {
		what   string
		answer http.HandlerFunc
		lines  []string
		want   string
	}{
		{"garbage", asHeader("<html>"), asJSON, "the answer cannot be read, so what answers may be no nodeagent: "},
		{"another type", asHeader(`["x"]`), asJSON, "the answer cannot be read"},
		{"another protocol", raw("SSH-2.0-OpenSSH_9.2\r\n"), askingCommands, "what answers at unix:"},
		{"nothing", raw(""), askingCommands, "has ended"},
		{"cut off", raw(head + "Content-Length: 100\r\n\r\n{\"items\": ["), asJSON, "has ended"},
		{"cut off in a chunk", raw(head + "Transfer-Encoding: chunked\r\n\r\n10\r\n{\"items\""), asJSON, "has ended"},
		{"a log cut off", raw(head + "Transfer-Encoding: chunked\r\n\r\n3\r\none"), []string{"logs web", "logs -f web"}, "has ended, or has cut it off because nothing was read for 30s"},
		{"half a line", raw(head + "Content-Length: 9\r\n\r\n{\"type\": "), []string{"pods -w"}, "has ended"},
	} {
		listen := answersAs(t, c.answer)
		for _, line := range c.lines {
			code, out, problems := command(t, withFlags(line, "--listen", listen)...)
			if code == 0 || !strings.Contains(problems, c.want) || strings.Count(problems, "\n") != 1 || strings.Contains(out, "{") {
				t.Errorf("%s, %s: code %d, %q %q, want %q", c.what, line, code, out, problems, c.want)
			}
		}
	}
}

// TestOrderThatIsNotTaken: Ctrl-C says that an order goes on only if the agent has taken it.
func TestOrderThatIsNotTaken(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	listen := answersAs(t, func(_ http.ResponseWriter, r *http.Request) { // no answer
		interrupt()
		<-r.Context().Done()
	})
	c := newEvict()
	c.SetArgs([]string{"web", "--listen", listen})
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), "if the agent has taken the order") {
		t.Error(err)
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
	} else if !strings.Contains(err.Error(), "too many clients watch") {
		t.Error(err)
	}
	if code, out, problems := a.tells("pods"); code != 0 || !strings.Contains(out, "web-n1") {
		t.Errorf("pods: %d %s%s", code, out, problems)
	}
	if code, out, problems := a.tells("evict", "web"); code != 0 {
		t.Errorf("an order among many viewers: %d %s%s", code, out, problems)
	}
	began := time.Now()
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	t.Logf("ended after %v", time.Since(began).Round(time.Millisecond))
}
