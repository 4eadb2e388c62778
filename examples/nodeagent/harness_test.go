package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime/process"
)

// asAgent makes this test binary behave as nodeagent itself, so that the agent
// under test is built with the same flags (the race detector) as the test.
const asAgent = "NODEAGENT_UNDER_TEST"

func TestMain(m *testing.M) {
	supervisor, done := process.Shim()
	if done {
		return
	}
	if os.Getenv(asAgent) != "" {
		stop := profileOnSignal(os.Getenv(agentProfile))
		code := run(os.Args[1:], supervisor, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// agentProgram names a nodeagent to test in place of this binary, which has more in it.
const agentProgram = "NODEAGENT_PROGRAM"

// agentProfile names the file an agent writes a CPU profile to, from a SIGUSR1 to
// its end.
const agentProfile = "NODEAGENT_CPU_PROFILE"

// profileOnSignal writes the agent's profile to a path; stop ends it. Without a path there is
// none.
func profileOnSignal(path string) (stop func()) {
	if path == "" {
		return func() {}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		<-signals
		f, err := os.Create(path)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "no profile:", err)
		}
	}()
	return pprof.StopCPUProfile
}

// profileFromNow begins the profile, if there is to be one.
func (a *testAgent) profileFromNow() {
	a.t.Helper()
	if os.Getenv(agentProfile) == "" {
		return
	}
	if err := a.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		a.t.Fatal(err)
	}
}

// longest bounds every wait of these tests. It is far beyond what is needed, so
// that a loaded machine fails nothing.
var longest = patience.Of(90 * time.Second)

// testAgent is a nodeagent process under test.
type testAgent struct {
	t   *testing.T
	cmd *exec.Cmd
	// listen is where it serves, as --listen has it, and api asks it there.
	listen string
	api    *apiClient
	node   string // the node's name, which the names of pods end with

	mu   sync.Mutex
	logs bytes.Buffer
	read chan struct{} // closed when its standard error ended
}

var listening = regexp.MustCompile(`msg="nodeagent started".* listen=\S`)

// startAgent runs nodeagent and waits until it serves.
func startAgent(t *testing.T, args ...string) *testAgent {
	t.Helper()
	return startAgentIn(t, nil, args...)
}

// startAgentIn is startAgent with further variables in the agent's environment.
func startAgentIn(t *testing.T, env []string, args ...string) *testAgent {
	t.Helper()
	a := launchIn(t, env, args...)
	await(t, "the agent to serve", func() error {
		if !listening.MatchString(a.log()) {
			select {
			case <-a.read:
				t.Fatalf("the agent ended:\n%s", a.log())
			default:
			}
			return errors.New("no address in its log yet")
		}
		return nil
	})
	return a
}

// launch runs nodeagent with a socket of its own.
func launch(t *testing.T, args ...string) *testAgent {
	t.Helper()
	return launchIn(t, nil, args...)
}

// launchIn is launch with further variables in the agent's environment.
func launchIn(t *testing.T, env []string, args ...string) *testAgent {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := &testAgent{t: t, node: "n1", read: make(chan struct{})}
	if i := slices.Index(args, "--node-name"); i >= 0 {
		a.node = args[i+1]
	}
	if i := slices.Index(args, "--listen"); i >= 0 {
		a.listen = args[i+1]
	} else {
		a.listen = "unix:" + filepath.Join(shortDir(t), "s")
		args = append([]string{"--listen", a.listen}, args...)
	}
	if a.api, err = openClient("", a.listen, filepath.Join(rootOf(args), "nodeagent.token")); err != nil {
		a.api = nil // it has no token yet, or is to be refused
	} else {
		a.api.http.Timeout = longest
	}
	if !slices.Contains(args, "--eviction-hard") { // this machine may have little left
		args = append([]string{"--eviction-hard", ""}, args...)
	}
	if os.Geteuid() == 0 && !slices.Contains(args, "--runtime") {
		args = append([]string{"--process-as-root"}, args...)
	}
	a.cmd = exec.Command(cmp.Or(os.Getenv(agentProgram), self), append([]string{"--node-name", a.node}, args...)...)
	a.cmd.Env = append(append(os.Environ(), asAgent+"=1"), env...)
	stderr, err := a.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(a.read)
		lines := bufio.NewReader(stderr)
		for {
			line, err := lines.ReadString('\n')
			a.mu.Lock()
			a.logs.WriteString(line)
			a.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		a.kill()
		if t.Failed() {
			t.Logf("log of agent %d:\n%s", a.cmd.Process.Pid, a.log())
		}
	})
	return a
}

func (a *testAgent) log() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.logs.String()
}

// kill is kill -9.
func (a *testAgent) kill() {
	_ = a.cmd.Process.Kill() // fails only if it has ended
	a.wait()
}

// terminate sends SIGTERM and returns the exit code.
func (a *testAgent) terminate() int {
	a.t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		a.t.Fatal(err)
	}
	return a.wait()
}

func (a *testAgent) wait() int {
	<-a.read
	_ = a.cmd.Wait() // the exit code says it; a second Wait is harmless
	return a.cmd.ProcessState.ExitCode()
}

// shortDir is a folder with a path that leaves room for the name of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "na")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// rootOf is the last --root of a command line, "" without one.
func rootOf(args []string) (root string) {
	for i, arg := range args {
		if arg == "--root" {
			root = args[i+1]
		}
	}
	return root
}

// get fetches a path of the local API.
func (a *testAgent) get(path string) (int, string) {
	a.t.Helper()
	response, err := a.api.get(context.WithoutCancel(a.t.Context()), path) // also while a test cleans up
	if err != nil {
		a.t.Fatalf("GET %s: %v", path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatalf("GET %s: %v", path, err)
	}
	return response.StatusCode, string(body)
}

// pods returns the agent's pods by name, without the node's suffix.
func (a *testAgent) pods() map[string]*v1.Pod {
	a.t.Helper()
	_, body := a.get("/pods")
	var list v1.PodList
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		a.t.Fatalf("/pods: %v\n%s", err, body)
	}
	out := map[string]*v1.Pod{}
	for i := range list.Items {
		out[strings.TrimSuffix(list.Items[i].Name, "-"+a.node)] = &list.Items[i]
	}
	return out
}

// await polls until check succeeds.
func await(t *testing.T, what string, check func() error) {
	t.Helper()
	awaitWithin(t, longest, what, check)
}

// awaitWithin is await with a limit of its own.
func awaitWithin(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("gave up waiting for %s: %v", what, err)
		}
	}
}

// awaitPod waits until the pod satisfies check, and returns it.
func (a *testAgent) awaitPod(name, what string, check func(*v1.Pod) bool) *v1.Pod {
	a.t.Helper()
	var found *v1.Pod
	await(a.t, fmt.Sprintf("pod %s: %s", name, what), func() error {
		p := a.pods()[name]
		if p == nil {
			return errors.New("there is no such pod")
		}
		if !check(p) {
			text, err := json.Marshal(p.Status)
			return fmt.Errorf("status %s %v", text, err)
		}
		found = p
		return nil
	})
	return found
}

// awaitPhase waits for a phase.
func (a *testAgent) awaitPhase(name string, phase v1.PodPhase) *v1.Pod {
	a.t.Helper()
	return a.awaitPod(name, "phase "+string(phase), func(p *v1.Pod) bool { return p.Status.Phase == phase })
}

// awaitGone waits until the agent does not show the pod any more.
func (a *testAgent) awaitGone(name string) {
	a.t.Helper()
	await(a.t, "pod "+name+" to be gone", func() error {
		if p := a.pods()[name]; p != nil {
			return fmt.Errorf("it is %s", podStatus(p))
		}
		return nil
	})
}

// containerIDs maps container names to their IDs.
func containerIDs(p *v1.Pod) map[string]string {
	out := map[string]string{}
	for _, c := range p.Status.ContainerStatuses {
		out[c.Name] = c.ContainerID
	}
	return out
}

// writeManifest puts a manifest into a folder the way editors do: under another
// name first, then renamed.
func writeManifest(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	temporary := filepath.Join(dir, "."+name+".tmp")
	if err := os.WriteFile(temporary, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// remove deletes a file.
func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// pod is a manifest with one container that runs a shell script.
func pod(name, image, script string, extra ...string) string {
	quoted, err := json.Marshal(script)
	if err != nil {
		panic(err) // a string always encodes
	}
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  containers:\n  - name: main\n    image: %s\n    imagePullPolicy: IfNotPresent\n    command: [sh, -c, %s]\n%s",
		name, image, quoted, strings.Join(extra, "\n"))
}
