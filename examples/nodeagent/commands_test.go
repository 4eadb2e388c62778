package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/process"
)

// command runs nodeagent in this process.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems bytes.Buffer
	code = run(args, process.Supervisor{}, &out, &problems)
	return code, out.String(), problems.String()
}

// tells runs a command that asks this agent.
func (a *testAgent) tells(args ...string) (code int, stdout, stderr string) {
	a.t.Helper()
	return command(a.t, append(args, "--listen", a.listen)...)
}

// TestCommandsAskTheAgent: the pods in every format, where one stands, refused manifests, problems, version;
// a pod's name may lack the node's; nothing that may be secret is shown.
func TestCommandsAskTheAgent(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-value"
	manifests := t.TempDir()
	writeManifest(t, manifests, "web.yaml", pod("web", "host", "exec sleep 1000 # "+secret))
	writeManifest(t, manifests, "crash.yaml", pod("crash", "host", "exit 3"))
	writeManifest(t, manifests, "broken.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: broken}\nspec: {}\n")
	writeManifest(t, manifests, "typo.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: typo}\nspec: {container: []}\n")
	writeManifest(t, manifests, "other.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n")
	a := startAgent(t, "--manifests", manifests, "--root", t.TempDir(), "--drain")
	a.awaitPhase("web", v1.PodRunning)
	a.awaitPod("crash", "to crash", func(p *v1.Pod) bool { return podStatus(p) == "CrashLoopBackOff" })

	for _, c := range []struct {
		line  string
		code  int
		wants []string
		not   string
	}{
		{"pods", 0, []string{"NAMESPACE   NAME       READY   STATUS ", "web-n1     1/1     Running ", "CrashLoopBackOff"}, "\x1b"},
		{"po web -o wide", 0, []string{"QOS", "BestEffort", "  n1  "}, "crash"},
		{"pods -n elsewhere", 0, []string{"NAMESPACE"}, "web"},
		{"pods wbe -w", codeNotFound, nil, "NAME"}, // it would be watched forever
		{"events wbe -w", codeNotFound, nil, "NAME"},
		{"pods -o name", 0, []string{"default/crash-n1\ndefault/web-n1\n"}, "NAME "},
		{"explain web", 0, []string{"default/web-n1: Running", "main: running, ready", "steps:"}, "{"},
		{"why default/crash", 0, []string{"CrashLoopBackOff", "restarts ", "looked at again in"}, "{"},
		{"explain crash-n1 -o yaml", 0, []string{"containers:", "reason: CrashLoopBackOff"}, "{"},
		{"problems", 1, []string{"source other.yaml: ", "Deployment"}, "\x1b"},
		{"version", 0, []string{"nodeagent ", "agent ", "node n1, runtime process"}, "{"},
		{"version -o json", 0, []string{`"api": 1`, `"pid": `}, "nodeagent (devel), API"},
		{"cleanup --plan", 0, []string{"ND2: the pod "}, "{"},
		{"cleanup --plan -o yaml", 0, []string{"actions:\n"}, "{"},
		{"__complete explain w", 0, []string{"web-n1\n"}, "Deployment"},
	} {
		args := strings.Fields(c.line)
		if args[0] == "__complete" { // flags come before what is to be completed
			args = []string{"__complete", "explain", "--listen", a.listen, "w"}
		} else {
			args = append(args, "--listen", a.listen)
		}
		code, out, problems := command(t, args...)
		if code != c.code || strings.Contains(out, c.not) || strings.Contains(out+problems, secret) {
			t.Errorf("%s: code %d\n%s%s", c.line, code, out, problems)
		}
		for _, want := range c.wants {
			if !strings.Contains(out, want) {
				t.Errorf("%s: lacks %q:\n%s", c.line, want, out)
			}
		}
	}
	_, _, refused := a.tells("pods")
	if !strings.Contains(refused, "Not as it should be in the manifests:\n  broken.yaml: ") || !strings.Contains(refused, "\n  other.yaml: ") || strings.Count(refused, "broken.yaml") != 1 || strings.Count(refused, "typo.yaml") != 1 {
		t.Errorf("pods: not each refused manifest once: %q", refused)
	}
	uid := string(a.pods()["crash"].UID)
	if code, out, problems := a.tells("events", uid[:8]); code != 0 || !strings.Contains(out, "default/crash-n1") {
		t.Errorf("events of a UID: %d %s%s", code, out, problems)
	}
	for line, want := range map[string]string{
		"logs web --tail -7": "--tail -7", "logs web --since yesterday": "since: ", "evict web --grace -5s": "grace: ",
		"exec web -- echo " + strings.Repeat("x", 70_000):    "the request is too long",
		"exec web -- echo " + strings.Repeat("x", 1_000_000): "the request is too long",
	} {
		if code, out, problems := command(t, withFlags(line, "--listen", a.listen)...); code != 2 || out != "" || !strings.Contains(problems, want) {
			t.Errorf("%.40s: %d %s%s", line, code, out, problems)
		}
	}
	for _, format := range []string{"json", "yaml"} {
		_, out, _ := a.tells("pods", "web", "-o", format)
		var p v1.Pod
		if err := yaml.UnmarshalStrict([]byte(out), &p); err != nil || p.Kind != "Pod" || p.Name != "web-n1" || len(p.Spec.Containers) != 1 {
			t.Errorf("-o %s: %v\n%s", format, err, out)
		}
	}
	if code, out, problems := command(t, "version", "--listen", "127.0.0.1:1", "--listen-token-file", manifests+"/none"); code != 0 || !strings.Contains(out, "agent: --listen-token-file") {
		t.Errorf("version without the token: %d %s%s", code, out, problems)
	}
	_, out, _ := a.tells("problems", "-o", "json")
	var all []podwright.Problem
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 4 || all[0].Kind != "source" {
		t.Errorf("problems: %v\n%s", err, out)
	}
	for _, line := range []string{"pods absent", "explain absent", "explain elsewhere/web", "explain ../../pods"} {
		code, out, problems := a.tells(strings.Fields(line)...)
		if want := 4; code != want && line != "explain ../../pods" || out != "" || !strings.HasPrefix(problems, "nodeagent: ") || strings.Count(problems, "\n") != 1 {
			t.Errorf("%s: code %d %q %q", line, code, out, problems)
		}
	}
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestPodsWatch: a watch begins with every pod, then tells each change, and ends with the agent.
func TestPodsWatch(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	path := writeManifest(t, manifests, "web.yaml", pod("web", "host", "exec sleep 1000", "  terminationGracePeriodSeconds: 1"))
	a := startAgent(t, "--manifests", manifests, "--root", t.TempDir(), "--drain")
	a.awaitPhase("web", v1.PodRunning)
	var out, problems lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- run([]string{"pods", "-w", "--listen", a.listen}, process.Supervisor{}, &out, &problems)
	}()
	says := func(want string) {
		t.Helper()
		await(t, "the watch to say "+want, func() error {
			if text := out.String(); !strings.Contains(text, want) {
				return errors.New(text)
			}
			return nil
		})
	}
	says("default     web-n1                     1/1     Running")
	remove(t, path)
	says("Gone")
	writeManifest(t, manifests, "later.yaml", pod("later", "host", "exit 0", "  restartPolicy: Never"))
	says("Completed")
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if code := <-ended; code != codeUnreachable || !strings.Contains(problems.String(), "has ended") || strings.Count(out.String(), "NAMESPACE") != 1 {
		t.Errorf("the watch ended with %d: %s\n%s", code, problems.String(), out.String())
	}
}

// TestConfigFile: run takes its settings from the file, commands find the agent by it, and the
// command line wins.
func TestConfigFile(t *testing.T) {
	dir, manifests := t.TempDir(), t.TempDir()
	socket := "unix:" + shortDir(t) + "/s"
	file := dir + "/nodeagent.yaml"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("root: " + dir + "\nmanifests: " + manifests + "\nlisten: [\"127.0.0.1:0\", \"" + socket + "\"]\nmax-pods: 3\nseccomp-default: false\ndead-containers-min-age: 90s\nnode-name: \"7\"\n")
	o, err := parse([]string{"--config", file, "--max-pods", "4"})
	if err != nil || o.root != dir || o.maxPods != 4 || o.seccomp || o.nodeName != "7" || len(o.api.addresses) != 2 || o.dead.minAge.Seconds() != 90 {
		t.Errorf("%+v, %v", o, err)
	}
	var r reach
	flags := newPods().Flags()
	r.config = file
	if err := r.configured(flags); err != nil || r.listen != socket || r.root != dir {
		t.Errorf("%+v, %v", r, err)
	}
	for text, want := range map[string]string{
		"manifest: x":      `there is no field "manifest"`,
		"max-pods: many":   `the field "max-pods": `,
		"node-name: 7":     `the field "node-name": want text, in quotes`,
		"listen: x":        `the field "listen": want a list`,
		"config: x":        "belongs on the command line",
		"root: a\nroot: b": "already set",
	} {
		write(text + "\n")
		code, _, problems := command(t, "pods", "--config", file)
		if _, err := parse([]string{"--config", file}); err == nil || !strings.Contains(err.Error(), want) || code != 2 || !strings.Contains(problems, want) {
			t.Errorf("%q: %v, %d %s", text, err, code, problems)
		}
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := parse([]string{"--config", file}); err == nil {
		t.Error("a file that everybody can change is read")
	}
}

// newCommandFor is the command line with its output in one place.
func newCommandFor(out io.Writer) *cobra.Command {
	c := newCommand(process.Supervisor{})
	c.SetOut(out)
	c.SetErr(out)
	return c
}
