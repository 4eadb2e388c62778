//go:build linux

package credentials

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// script is a plugin on disk; the source runs it.
func script(t *testing.T, text string, more ...string) (*Source, rig) {
	t.Helper()
	r := newRig(t)
	r.write("a", "#!/bin/sh\n"+text+"\n", 0o755)
	r.write("config", head+one("a", more...), 0o600)
	o, w := r.options(), &world{t: t}
	w.account.UID = "sa-1"
	o.Tokens, o.Accounts = w, w
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, r
}

// answering is the part of a script that answers.
func answering(user string) string {
	return `echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":"Image","auth":{"reg.io":{"username":"` +
		user + `","password":"hunter2"}}}';`
}

// fifo is a place where a plugin tells that it runs, or waits forever.
func (r rig) fifo(name string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// gone waits until the process whose ID is in a file no longer runs.
func (r rig) gone(file string) {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, file))
	if err != nil {
		r.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		r.t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if _, rest, _ := strings.Cut(string(stat), ") "); err != nil || strings.HasPrefix(rest, "Z") {
			return // an orphan is reaped by another process
		}
		if time.Now().After(end) {
			r.t.Fatalf("process %d still runs: %s", pid, stat)
		}
		<-time.After(time.Millisecond)
	}
}

// KG3: a plugin gets the request on stdin, its arguments, and the agent's environment with what the
// configuration adds.
func TestPluginGetsItsInput(t *testing.T) {
	t.Setenv("FROM_AGENT", "agent")
	t.Setenv("OF_BOTH", "agent")
	s, r := script(t, `echo "$1-$2-$FROM_AGENT-$OF_BOTH-$OF_CONFIG" >"${0%/*}/said"; cat >"${0%/*}/asked"; `+answering("u"),
		"  args: [get, \"a b\"]\n  env: [{name: OF_BOTH, value: config}, {name: OF_CONFIG, value: config}]\n")
	got, err := s.Credentials(t.Context(), podOf("p", ""), "reg.io/app:1")
	if err != nil || len(got) != 1 || got[0].Username != "u" || got[0].Password != "hunter2" {
		t.Errorf("%v, %v", got, err)
	}
	for file, want := range map[string]string{
		"said":  "get-a b-agent-config-config\n",
		"asked": `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"reg.io/app"}`,
	} {
		if text, err := os.ReadFile(filepath.Join(r.dir, file)); err != nil || string(text) != want {
			t.Errorf("%s: %s, %v; want %s", file, text, err, want)
		}
	}
}

// KG4: a plugin that hangs is killed after a minute, with the processes it has started.
func TestHungPluginIsKilledWithItsChildren(t *testing.T) {
	s, r := script(t, `cd "${0%/*}"; echo $$ >self; sleep 1000 & echo $! >child; echo >began; read x <never`)
	began, _ := r.fifo("began"), r.fifo("never")
	clock := clocktesting.NewFakeClock(time.Now())
	s.options.Clock = clock
	failed := make(chan error, 1)
	go func() {
		_, err := s.Credentials(t.Context(), podOf("p", ""), "reg.io/app")
		failed <- err
	}()
	if _, err := os.ReadFile(began); err != nil {
		t.Fatal(err)
	}
	clock.Step(time.Minute)
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "killed after 1m0s") {
		t.Error(err)
	}
	r.gone("self")
	r.gone("child")
}

// KG4: a plugin whose caller gives up is killed.
func TestPluginEndsWithItsCaller(t *testing.T) {
	s, r := script(t, `cd "${0%/*}"; echo $$ >self; echo >began; read x <never`)
	began, _ := r.fifo("began"), r.fifo("never")
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := s.Credentials(ctx, podOf("p", ""), "reg.io/app")
		failed <- err
	}()
	if _, err := os.ReadFile(began); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.gone("self")
}

// KG4: a plugin does not outlive an agent that is killed.
func TestPluginEndsWithTheAgent(t *testing.T) {
	_, r := script(t, `cd "${0%/*}"; echo $$ >self; echo >began; read x <never`)
	began, _ := r.fifo("began"), r.fifo("never")
	agent := exec.Command(os.Args[0])
	agent.Env = append(os.Environ(), asAgent+"="+r.dir)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(began); err != nil {
		t.Error(err)
	}
	if err := agent.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := agent.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the agent: %v", err)
	}
	r.gone("self")
}

// KG4: what a plugin leaves running is killed, and its answer counts.
func TestPluginLeavesNothing(t *testing.T) {
	s, r := script(t, `cd "${0%/*}"; sleep 1000 & echo $! >child; `+answering("u"))
	if got, err := s.Credentials(t.Context(), podOf("p", ""), "reg.io/app"); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	r.gone("child")
}

// KG4: an answer without end is an error, and so is a plugin that fails.
func TestPluginsThatMisbehave(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"endless":     {`while :; do echo 0123456789012345678901234567890123456789; done`, "longer than 1 MiB"},
		"endless err": {`i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789 >&2; i=$((i+1)); done; exit 3`, "exit status 3; it said: ..."},
		"fails":       {`echo >&2 "no role"; exit 3`, "exit status 3; it said: no role"},
		"crashes":     {`kill -SEGV $$`, "signal: segmentation fault"},
		"says little": {`echo ok`, "no JSON"},
		"cut":         {`echo >&2 'hunter2'; printf '{"auth":{"r":{"username":"u","password":"hunter2","more":"'; while :; do echo 0123456789; done`, "its stderr is not shown"},
		"says why":    {`echo ok; echo >&2 'cannot reach the metadata service'`, "its stderr is not shown"},
	} {
		s, _ := script(t, c.text)
		_, err := s.Credentials(t.Context(), podOf("p", ""), "reg.io/app")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `credential plugin "a"`) || strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 2000 {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// KG2: a plugin that is removed, or that others can change, after the start is not run; one that is
// replaced is.
func TestPluginIsCheckedBeforeEachRun(t *testing.T) {
	s, r := script(t, "exit 1")
	try := func(image, want string) {
		t.Helper()
		if _, err := s.Credentials(t.Context(), podOf("p", ""), image); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	try("reg.io/a", "exit status 1")
	r.write("a", "#!/bin/sh\n"+answering("u"), 0o777)
	try("reg.io/b", "chmod go-w")
	if err := os.Remove(filepath.Join(r.dir, "a")); err != nil {
		t.Fatal(err)
	}
	try("reg.io/c", "does not exist")
	r.write("a", "#!/bin/sh\n"+answering("u"), 0o755)
	try("reg.io/d", "")
}

// KG4: what a plugin says of its failure is shown without what is secret.
func TestErrorsOfPluginsAreRedacted(t *testing.T) {
	s, _ := script(t, `read request; echo >&2 "asked $request with $API_KEY"; echo >&2 "dTpodW50ZXIy hunter2"; `+answering("u")+` exit 1`,
		"  env: [{name: API_KEY, value: key-of-config}]\n", tokens, "    cacheType: Token\n    requireServiceAccount: true\n")
	_, err := s.Credentials(t.Context(), podOf("p", "robot"), "reg.io/app")
	if err == nil || !strings.Contains(err.Error(), `"image":"reg.io/app"`) {
		t.Fatal(err)
	}
	for _, secret := range []string{"registry for robot", "key-of-config", "hunter2", "dTpodW50ZXIy"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q is shown: %v", secret, err)
		}
	}
}
