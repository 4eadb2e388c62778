package podwrighttest_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/podwrighttest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods/containerlog"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The examples that the guide shows are tests.
func TestExamples(t *testing.T) {
	for name, example := range map[string]func(*testing.T){
		"three lines": threeLines, "crash loop": crashLoop, "stubborn": stubborn, "crash": crash, "registry away": registryAway, "own sink": ownSink,
	} {
		t.Run(name, example)
	}
}

// probed returns a pod whose readiness follows its program.
func probed(name string) *v1.Pod {
	p := podwrighttest.Pod(name)
	p.Spec.Containers[0].ReadinessProbe = &v1.Probe{
		ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"ready"}}}, PeriodSeconds: 1,
	}
	return p
}

func TestReadinessFollowsTheProgram(t *testing.T) {
	o := podwrighttest.Options{Programs: map[string]podwrighttest.Program{"main": {ReadyAfter: 20 * time.Second}}}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		n.Add(probed("web"))
		n.WaitPhase("web", v1.PodRunning)
		if took := n.WaitReady("web"); took < 15*time.Second || took > 25*time.Second {
			t.Errorf("ready after %v, want about 20 s", took)
		}
	})
}

// The program of one pod's container takes precedence over that of all containers of the name, and
// SetProgram applies to containers that are created later.
func TestProgramsGoByName(t *testing.T) {
	o := podwrighttest.Options{Programs: map[string]podwrighttest.Program{
		"main": {RunsFor: time.Second}, "bad/main": {ExitsWith: 9, Reason: "OOMKilled"}, "late/main": {StartError: "no such command"},
	}}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		for _, name := range []string{"good", "bad", "late"} {
			p := podwrighttest.Pod(name)
			if name != "late" {
				p.Spec.RestartPolicy = v1.RestartPolicyNever
			}
			n.Add(p)
		}
		n.WaitPhase("good", v1.PodSucceeded)
		n.WaitPhase("bad", v1.PodFailed)
		if s := n.Pod("bad").Status.ContainerStatuses[0].State.Terminated; s.ExitCode != 9 || s.Reason != "OOMKilled" {
			t.Errorf("bad ended with %d, %s", s.ExitCode, s.Reason)
		}
		n.SetProgram("late/main", podwrighttest.Program{})
		n.WaitReady("late")
		if !slices.ContainsFunc(n.Events("late"), func(e string) bool { return strings.Contains(e, "no such command") }) {
			t.Errorf("events of late: %q", n.Events("late"))
		}
	})
}

// A program prints to its log. When it is told to stop, it ends after its own time with its own code.
func TestProgramsPrintAndStop(t *testing.T) {
	o := podwrighttest.Options{Programs: map[string]podwrighttest.Program{
		"main": {Prints: []string{"hello", "world"}, StopsIn: 7 * time.Second, StoppedWith: 3},
	}}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		n.Add(podwrighttest.Pod("web"))
		n.WaitReady("web")
		n.Advance(5 * time.Second)
		var log strings.Builder
		if err := n.Engine().ContainerLog(t.Context(), "uid-web", "main", containerlog.Options{}, &log); err != nil || log.String() != "hello\nworld\n" {
			t.Errorf("log %q, %v", log.String(), err)
		}
		n.Remove("web")
		if took := n.WaitGone("web"); took < 7*time.Second || took > 20*time.Second {
			t.Errorf("gone after %v, want some seconds more than 7", took)
		}
		if phases := n.Phases("web"); !slices.Contains(phases, v1.PodFailed) || phases[len(phases)-1] != "" {
			t.Errorf("phases %q, want Failed by the code of the end, and that it is forgotten", phases)
		}
	})
}

// Set replaces, Add adds and replaces, Remove removes, in any namespace; while no engine runs,
// the next one gets the result.
func TestDesiredPodsOutliveEngines(t *testing.T) {
	podwrighttest.Run(t, podwrighttest.Options{}, func(n *podwrighttest.Node) {
		other := podwrighttest.Pod("b")
		other.Namespace, other.UID = "team", "uid-team-b"
		n.Set(podwrighttest.Pod("a"), podwrighttest.Pod("b"))
		n.Add(other)
		n.WaitPhase("a", v1.PodRunning)
		n.WaitPhase("team/b", v1.PodRunning)
		n.Stop()
		n.Remove("b")
		n.Add(podwrighttest.Pod("c"))
		if n.Pod("a") != nil || n.Engine() != nil {
			t.Error("there is an engine after Stop")
		}
		n.Start()
		n.WaitPhase("c", v1.PodRunning)
		n.WaitGone("b")
		n.WaitPhase("team/b", v1.PodRunning)
		if n.Runtime().Facts("uid-a", "main").Started != 1 {
			t.Error("an engine that ended took a pod with it")
		}
	})
}

// After a crash, the next engine knows everything that the previous one wrote.
func TestCrashKeepsWhatWasWritten(t *testing.T) {
	o := podwrighttest.Options{Programs: map[string]podwrighttest.Program{"main": {RunsFor: time.Minute, ExitsWith: 4}}}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		job := podwrighttest.Pod("job")
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		n.Add(job)
		n.WaitPhase("job", v1.PodFailed)
		n.Advance(5 * time.Second) // its record is written
		n.Restart()
		n.Runtime().LoseRecords()
		n.Advance(time.Minute)
		n.WaitPhase("job", v1.PodFailed)
		if started := n.Runtime().Facts(job.UID, "main").Started; started != 1 {
			t.Errorf("started %d times", started)
		}
		heard := n.Phases("job")
		if heard[0] == v1.PodPending { // it may be overtaken: sinks get the newest status
			heard = heard[1:]
		}
		if want := []v1.PodPhase{v1.PodRunning, v1.PodFailed}; !slices.Equal(heard, want) {
			t.Errorf("the sink heard %v, want %v", heard, want)
		}
	})
}

// A crashing engine reports nothing that a killed process would not have reported.
func TestCrashIsSilent(t *testing.T) {
	o := podwrighttest.Options{Programs: map[string]podwrighttest.Program{"main": {IgnoresTERM: true}}}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		n.Add(podwrighttest.Pod("web"))
		n.WaitPhase("web", v1.PodRunning)
		n.Advance(5 * time.Second)
		n.Remove("web")
		n.Advance(5 * time.Second) // it is being stopped
		phases, events := len(n.Phases("web")), len(n.Events("web"))
		n.Crash()
		n.Advance(time.Hour)
		if len(n.Phases("web")) != phases || len(n.Events("web")) != events {
			t.Errorf("after the crash: phases %v, events %q", n.Phases("web"), n.Events("web"))
		}
		n.Start()
		n.WaitGone("web")
	})
}

// A reboot ends every container; those that should run are started again.
func TestRebootEndsContainers(t *testing.T) {
	podwrighttest.Run(t, podwrighttest.Options{}, func(n *podwrighttest.Node) {
		n.Add(podwrighttest.Pod("web"))
		n.WaitReady("web")
		n.Advance(time.Minute)
		n.Reboot()
		if n.Runtime().Running("uid-web", "main") != 0 {
			t.Error("a container runs after the reboot")
		}
		n.Start()
		n.WaitReady("web")
		if facts := n.Runtime().Facts("uid-web", "main"); facts.Started != 2 || facts.Running != 1 {
			t.Errorf("started %d times, %d run", facts.Started, facts.Running)
		}
		if recovery, _ := n.Engine().Recovery(); !recovery.Rebooted {
			t.Errorf("the engine did not notice the reboot: %v", recovery)
		}
	})
}

// Faults last until they are mended.
func TestFaultsAreMended(t *testing.T) {
	podwrighttest.Run(t, podwrighttest.Options{}, func(n *podwrighttest.Node) {
		hang := n.Hang(fake.RunPodSandbox, 2*time.Minute)
		n.Add(podwrighttest.Pod("web"))
		n.Advance(20 * time.Second)
		if n.Pod("web").Status.Phase != v1.PodPending || n.Runtime().CallCount(fake.RunPodSandbox) == 0 {
			t.Error("the call did not hang")
		}
		hang()
		n.WaitPhase("web", v1.PodRunning)
		fail := n.Fail(fake.RemovePodSandbox, errors.New("busy"))
		n.Remove("web")
		n.Advance(time.Minute)
		if left, err := n.Runtime().ListPodSandbox(t.Context(), nil); err != nil || len(left) != 1 {
			t.Errorf("%d sandboxes after removals that failed: %v", len(left), err)
		}
		fail()
		n.WaitGone("web")
	})
}

// Exit ends a container as if it had ended by itself; the container is started again.
func TestExitEndsAContainer(t *testing.T) {
	podwrighttest.Run(t, podwrighttest.Options{}, func(n *podwrighttest.Node) {
		n.Add(podwrighttest.Pod("web"))
		n.WaitReady("web")
		n.Exit("web", "main", 5)
		n.Wait("a restart", func() error {
			if c := n.Pod("web").Status.ContainerStatuses[0]; c.RestartCount != 1 || c.LastTerminationState.Terminated.ExitCode != 5 {
				return errors.New("not yet")
			}
			return nil
		})
	})
}

// A test that has a bubble may have several nodes in it, and sources of its own.
func TestNodesShareABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine := source.NewChannel(source.ChannelOptions{Name: "mine", NodeName: "node"})
		a := podwrighttest.Start(t, podwrighttest.Options{})
		b := podwrighttest.Start(t, podwrighttest.Options{Configure: func(c *podwright.Config) { c.Sources = []syncloop.Source{mine} }})
		a.Add(podwrighttest.Pod("web"))
		if err := mine.Set(t.Context(), []*v1.Pod{podwrighttest.Pod("db")}); err != nil {
			t.Fatal(err)
		}
		a.WaitPhase("web", v1.PodRunning)
		b.WaitPhase("db", v1.PodRunning)
		if a.Pod("db") != nil || b.Pod("web") != nil {
			t.Error("the nodes share pods")
		}
	})
}

// envFailing is set in a child process that runs tests that must fail.
const envFailing = "PODWRIGHT_PODWRIGHTTEST_FAILING"

// TestFailing is the test that the child process runs.
func TestFailing(t *testing.T) {
	if os.Getenv(envFailing) == "" {
		t.Skip("runs as a child of TestFailuresSayWhy")
	}
	o := podwrighttest.Options{Programs: map[string]podwrighttest.Program{"main": {StartError: "no such command"}}, Patience: time.Minute}
	for name, f := range map[string]func(n *podwrighttest.Node){
		"phase":   func(n *podwrighttest.Node) { n.Add(podwrighttest.Pod("web")); n.WaitPhase("web", v1.PodSucceeded) },
		"absent":  func(n *podwrighttest.Node) { n.WaitReady("web") },
		"gone":    func(n *podwrighttest.Node) { n.Add(podwrighttest.Pod("web")); n.WaitGone("web") },
		"remove":  func(n *podwrighttest.Node) { n.Remove("web") },
		"stopped": func(n *podwrighttest.Node) { n.Stop(); n.WaitReady("web") },
		"twice":   func(n *podwrighttest.Node) { n.Start() },
		"program": func(n *podwrighttest.Node) { n.SetProgram("web", podwrighttest.Program{Times: 1}) },
	} {
		t.Run(name, func(t *testing.T) { podwrighttest.Run(t, o, f) })
	}
}

// A test that fails says what it waited for, and what the engine knows about that.
func TestFailuresSayWhy(t *testing.T) {
	if os.Getenv(envFailing) != "" {
		t.Skip("this is the child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestFailing$", "-test.v")
	cmd.Env = append(os.Environ(), envFailing+"=1")
	out, _ := cmd.CombinedOutput()
	for _, want := range []string{
		"pod web Succeeded: not within 1m0s: phase ", "no such command",
		"pod web ready: not within 1m0s: the engine has no pod of this name",
		"pod web gone: not within 1m0s: the engine has it",
		"Remove: pod web is not desired",
		"pod web ready: not within 1m0s: no engine runs: Start starts one",
		"Start: an engine is already running",
		"SetProgram: times and reason describe an end",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "--- PASS: TestFailing/") {
		t.Errorf("a test passes that must fail:\n%s", out)
	}
}
