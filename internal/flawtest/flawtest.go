package flawtest

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// variable tells the child process that it is one.
const variable = "PODWRIGHT_FLAWED"

// Kit is a conformance kit and the flaws that it must catch.
type Kit struct {
	Cases []Case
	// Caught maps the flaws that subjects have or may well have to the case that must notice.
	Caught map[string]string
	// Says maps flaws to what a failure must say.
	Says map[string]string
}

// Case is one of a kit's cases.
type Case struct {
	Name string
	// Run executes the case on a subject with a flaw.
	Run func(t *testing.T, flaw string)
}

// Flawed is the body of TestFlawed, the child.
func (k Kit) Flawed(t *testing.T) {
	if os.Getenv(variable) == "" {
		t.Skip("runs as a child of TestFlawsAreCaught")
	}
	for flaw, name := range k.Caught {
		if at := slices.IndexFunc(k.Cases, func(c Case) bool { return c.Name == name }); at >= 0 {
			t.Run(flaw, func(t *testing.T) { k.Cases[at].Run(t, flaw) })
		}
	}
}

// CasesHaveFlaws is the body of a test: every case has a flaw that it catches.
func (k Kit) CasesHaveFlaws(t *testing.T) {
	names := slices.Collect(maps.Values(k.Caught))
	for _, c := range k.Cases {
		if !slices.Contains(names, c.Name) {
			t.Errorf("case %q has no flaw", c.Name)
		}
	}
}

// FlawsAreCaught is the body of TestFlawsAreCaught: each flaw fails its case.
func (k Kit) FlawsAreCaught(t *testing.T) {
	if os.Getenv(variable) != "" {
		t.Skip("this is the child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestFlawed$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"=1")
	out, _ := cmd.CombinedOutput()
	for flaw, name := range k.Caught {
		if !strings.Contains(string(out), "--- FAIL: TestFlawed/"+strings.ReplaceAll(flaw, " ", "_")+" (") {
			t.Errorf("flaw %q is not caught by %q:\n%s", flaw, name, out)
		}
		if !strings.Contains(string(out), k.Says[flaw]) {
			t.Errorf("flaw %q: no failure says %q:\n%s", flaw, k.Says[flaw], out)
		}
	}
}

// Hurried is a clock whose timers fire early, for cases that would otherwise use up all their time.
type Hurried struct {
	clock.RealClock
	// By is the factor by which they fire early.
	By time.Duration
}

// NewTimer is the method of clock.Clock.
func (h Hurried) NewTimer(d time.Duration) clock.Timer { return h.RealClock.NewTimer(d / h.By) }
