package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// stubborn is a pod that does not mind SIGTERM for its grace period, once its log says so.
func stubborn(name string, grace string) string {
	return pod(name, "host", "trap '' TERM; echo stubborn; while :; do sleep 0.1; done", "  terminationGracePeriodSeconds: "+grace)
}

// awaitStubborn waits until a pod made by stubborn does not mind SIGTERM.
func (a *testAgent) awaitStubborn(name string) {
	a.t.Helper()
	await(a.t, name+" to mind no SIGTERM", func() error {
		if _, out, problems := a.tells("logs", name); !strings.Contains(out, "stubborn") {
			return fmt.Errorf("its log is %q, %s", out, problems)
		}
		return nil
	})
}

// TestDrainCommand: it says what it waits for, and ends with the agent when all pods are stopped.
func TestDrainCommand(t *testing.T) {
	t.Parallel()
	manifests, root := t.TempDir(), t.TempDir()
	writeManifest(t, manifests, "deaf.yaml", stubborn("deaf", "2"))
	writeManifest(t, manifests, "web.yaml", pod("web", "host", "exec sleep 1000"))
	a := startAgent(t, "--manifests", manifests, "--root", root)
	a.awaitStubborn("deaf")
	a.awaitPhase("web", v1.PodRunning)
	if code, _, problems := a.tells("drain"); code != 2 || !strings.Contains(problems, "say --yes") {
		t.Errorf("without --yes: %d %s", code, problems)
	}
	code, out, problems := a.tells("drain", "--yes")
	if code != 0 || problems != "" || !strings.Contains(out, "waiting for pod default/deaf-n1: ") || !strings.HasSuffix(out, "All pods are stopped, and the agent ends.\n") {
		t.Errorf("drain: %d\n%s%s", code, out, problems)
	}
	if code := a.wait(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	if code, _, _ := a.tells("drain", "--yes"); code != 3 {
		t.Errorf("without an agent: %d", code)
	}
}

// TestDrainOfARunOfOnce: an agent that runs its pods once drains only if it was started for that, and
// never says that pods are stopped that run.
func TestDrainOfARunOfOnce(t *testing.T) {
	t.Parallel()
	for _, drains := range []bool{false, true} {
		manifests := t.TempDir()
		writeManifest(t, manifests, "web.yaml", pod("web", "host", "exec sleep 1000"))
		args := []string{"--manifests", manifests, "--root", t.TempDir(), "--run-once", "--run-once-min-ready", "1h"}
		if drains {
			args = append(args, "--drain")
		} else {
			drainAtEnd(t, args[:4]...)
		}
		a := startAgent(t, args...)
		a.awaitPhase("web", v1.PodRunning)
		code, out, problems := a.tells("drain", "--yes")
		if drains {
			if code != 0 || !strings.HasSuffix(out, "All pods are stopped, and the agent ends.\n") {
				t.Errorf("drain: %d\n%s%s", code, out, problems)
			}
			a.wait()
			continue
		}
		if code != 1 || !strings.Contains(problems, "without --drain") {
			t.Errorf("drain: %d\n%s%s", code, out, problems)
		}
		a.awaitPhase("web", v1.PodRunning)
	}
}

// TestStopTellsWhatItWaitsFor: after SIGTERM the log names the pod that holds up the drain.
func TestStopTellsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	writeManifest(t, manifests, "deaf.yaml", stubborn("deaf", "7"))
	a := startAgent(t, "--manifests", manifests, "--root", t.TempDir(), "--drain")
	a.awaitStubborn("deaf")
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await(t, "the log to name the pod", func() error {
		if !strings.Contains(a.log(), `msg="still waiting" for="pod default/deaf-n1: `) {
			return errors.New("it does not")
		}
		return nil
	})
	if code := a.wait(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
}

// TestRestartCommand: the container runs again when the command returns, the pod says why, and what cannot be restarted is refused.
func TestRestartCommand(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	writeManifest(t, manifests, "web.yaml", pod("web", "host", "exec sleep 1000"))
	writeManifest(t, manifests, "once.yaml", pod("once", "host", "exec sleep 1000", "  restartPolicy: Never"))
	a := startAgent(t, "--manifests", manifests, "--root", t.TempDir(), "--drain")
	before := containerIDs(a.awaitPhase("web", v1.PodRunning))
	a.awaitPhase("once", v1.PodRunning)
	for line, want := range map[string]string{
		"restart none":          `there is no pod "none"`,
		"restart web -c nope":   `no container "nope"`,
		"restart once":          "must not run twice",
		"restart once --twice":  "unknown flag",
		"restart once -c main ": "must not run twice",
	} {
		if code, _, problems := a.tells(strings.Fields(line)...); code == 0 || !strings.Contains(problems, want) {
			t.Errorf("%s: %d %q", line, code, problems)
		}
	}
	for i := range int32(2) {
		code, out, problems := a.tells("restart", "web", "-c", "main", "--message", "the certificate is new")
		problems = regexp.MustCompile(`(?m)^waiting for .*\n`).ReplaceAllString(problems, "") // on a busy machine
		if code != 0 || out != "restarted in default/web-n1: main (its last run ended with code 143, Error)\n" || problems != "" {
			t.Fatalf("restart: %d %q %q", code, out, problems)
		}
		after := a.awaitPhase("web", v1.PodRunning)
		if c := after.Status.ContainerStatuses[0]; c.RestartCount != i+1 || c.State.Running == nil || containerIDs(after)["main"] == before["main"] {
			t.Errorf("after restart %d: %+v", i, c)
		}
	}
	if _, out, _ := a.tells("events", "web"); !strings.Contains(out, "RestartRequested") || !strings.Contains(out, "the certificate is new") || strings.Contains(out, "BackOff") {
		t.Errorf("events:\n%s", out)
	}
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestRestartTellsWhatItWaitsFor: a restart that lasts says what it waits for, in which container, and how far that is;
// all restarted containers are named with their ends.
func TestRestartTellsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	two := strings.Replace(stubborn("deaf", "5"), "  containers:\n", "  containers:\n  - {name: side, image: host, command: [sh, -c, exec sleep 1000]}\n", 1)
	writeManifest(t, manifests, "deaf.yaml", strings.Replace(two, "{name: deaf}", "{name: deaf, annotations: {"+defaultContainer+": main}}", 1))
	a := startAgent(t, "--manifests", manifests, "--root", t.TempDir(), "--drain")
	a.awaitStubborn("deaf")
	code, out, problems := a.tells("restart", "deaf", "-c", "main")
	if code != 0 || out != "restarted in default/deaf-n1: main (its last run ended with code 137, Error)\n" ||
		!regexp.MustCompile(`(?m)^waiting for pod default/deaf-n1: stopping container main, which was asked to restart, \d s of 5 s grace$`).MatchString(problems) {
		t.Errorf("restart: %d %q %q", code, out, problems)
	}
	a.awaitStubborn("deaf")
	response, err := a.api.do(t.Context(), http.MethodPost, "/restart/default/deaf") // one answer for those that want no progress
	if err != nil {
		t.Fatal(err)
	}
	body, err := a.api.whole(response)
	var all restarted
	if err := errors.Join(err, json.Unmarshal(body, &all), response.Body.Close()); err != nil || all.Pod != "default/deaf-n1" || len(all.Containers) != 2 {
		t.Errorf("without progress: %v\n%s", err, body)
	}
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestEvictCommand: the pod is Failed, for the reason that was given, when the command returns.
func TestEvictCommand(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	writeManifest(t, manifests, "deaf.yaml", stubborn("deaf", "1000"))
	a := startAgent(t, "--manifests", manifests, "--root", t.TempDir(), "--drain")
	a.awaitStubborn("deaf")
	for line, want := range map[string]string{
		"evict none":                 `there is no pod "none"`,
		"evict deaf --grace -1s":     "is no duration",
		"evict deaf --reason no_way": "eason",
	} {
		if code, _, problems := a.tells(strings.Fields(line)...); code == 0 || !strings.Contains(problems, want) || strings.Count(problems, "\n") != 1 {
			t.Errorf("%s: %d %q", line, code, problems)
		}
	}
	code, out, problems := a.tells("evict", "deaf", "--grace", "1s", "--reason", "Maintenance", "--message", "the disk is replaced")
	if code != 0 || out != "default/deaf-n1 is evicted\n" || masked(problems) != "" { // on a slow machine it says what it waits for
		t.Fatalf("evict: %d %q %q", code, out, problems)
	}
	_, out, _ = a.tells("pods", "deaf", "-o", "json")
	if !strings.Contains(out, `"phase": "Failed"`) || !strings.Contains(out, `"reason": "Maintenance"`) || !strings.Contains(out, "the disk is replaced") {
		t.Errorf("the pod afterwards:\n%s", out)
	}
	if code, out, problems := a.tells("evict", "deaf"); code != 0 || out != "default/deaf-n1 had ended before, Failed, and stays so\n" || problems != "" {
		t.Errorf("evict of a pod that has ended: %d %q %q", code, out, problems)
	}
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
