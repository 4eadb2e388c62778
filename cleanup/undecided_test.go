package cleanup

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/podwright/podwright/internal/problem"
)

var errUnread = errors.New("manifest x has been unreadable since the start")

// newUndecided returns a node whose sources are undecided while *why is not nil.
func newUndecided(t *testing.T) (n *node, why *error, lines *[]string) {
	why, lines = new(error), new([]string)
	*why = errUnread
	n = newNode(t, func(o *Options) {
		o.Undecided = func() error { return *why }
		o.Logger = funcr.New(func(_, args string) { *lines = append(*lines, args) }, funcr.Options{})
	})
	return n, why, lines
}

// TestUndecidedAfterStart: while a manifest cannot be read, every step and the collector leave
// alone what was running or left over when the process began (ND2); this is logged once, and is not
// a failure. When the manifest is gone, all of it is removed.
func TestUndecidedAfterStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, why, lines := newUndecided(t)
		n.runs["a"], n.content["a"], n.podDirs["a"], n.logDirs["a"] = true, true, true, true
		n.content["dead"], n.podDirs["dead"], n.logDirs["dead"] = true, true, true
		n.Found("dead")
		n.pass(t, "left alone")
		n.collectAt = time.Time{}
		n.pass(t, "still, and by the collector")
		for _, a := range n.LastPlan().Actions {
			if a.Forbidden.Rule != "ND2" {
				t.Errorf("%+v", a)
			}
		}
		if len(*lines) != 1 || !strings.Contains((*lines)[0], errUnread.Error()) {
			t.Errorf("log %q", *lines)
		}
		*why = nil
		n.collectAt = time.Time{}
		n.pass(t, "decided", "kill a", "remove content dead", "remove logs dead", "remove folder dead")
		if last := (*lines)[1]; !strings.Contains(last, "Every source can name its pods again") {
			t.Errorf("log %q", *lines)
		}
	})
}

// TestHeldPodIsAProblem: ND2, IN2. A running pod that no source has named has no status: only a problem shows that it is left alone.
func TestHeldPodIsAProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, why, _ := newUndecided(t)
		n.runs["a"], n.content["dead"] = true, true
		n.Found("dead")
		n.pass(t, "left alone")
		if problems := n.Problems(); len(problems) != 0 {
			t.Errorf("at once: %v", problems)
		}
		began := time.Now()
		<-time.After(problem.SourceLimit)
		n.pass(t, "still")
		if got := n.Problems(); len(got) != 1 || got[0].UID != "a" || got[0].Name != "ns/a" || !errors.Is(got[0], errUnread) || !got[0].Since.Equal(began) {
			t.Errorf("%v", got)
		}
		*why = nil
		n.pass(t, "decided", "kill a", "remove content dead")
		if problems := n.Problems(); len(problems) != 0 {
			t.Errorf("afterwards: %v", problems)
		}
	})
}

// TestUndecidedKnownPods: pods that this process has known end as usual.
func TestUndecidedKnownPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _, lines := newUndecided(t)
		n.want(newPod("a"))
		n.workers["a"], n.runs["a"], n.content["a"], n.podDirs["a"] = Worker{HasConfig: true}, true, true, true
		n.pass(t, "it runs")
		n.want()
		n.workers["a"] = Worker{State: WorkerTerminated, HasConfig: true}
		delete(n.runs, "a")
		n.pass(t, "its manifest was deleted")
		n.finished["a"] = true
		n.pass(t, "all of it goes", "remove content a", "remove folder a")
		n.runs["a"] = true
		n.pass(t, "whatever runs of it is an orphan", "kill a")

		n.content["b"] = true
		n.Finished("b")
		n.pass(t, "lived and died between two passes", "remove content b")
		if len(*lines) != 4 { // one per action
			t.Errorf("log %q", *lines)
		}
	})
}

// TestUndecidedMeanwhile: a source that becomes undecided after the plan was made
// still protects (DR1).
func TestUndecidedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, why, _ := newUndecided(t)
		*why = nil
		n.runs["a"], n.podDirs["b"], n.content["b"] = true, true, true
		n.during = func() { *why = errUnread }
		n.pass(t, "asked again")
	})
}

// TestMetIsBounded: pods of which nothing is left are forgotten, others are not.
func TestMetIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _, _ := newUndecided(t)
		for i := range 100 {
			pod := newPod(fmt.Sprint("p", i))
			n.want(pod)
			n.workers[pod.UID] = Worker{HasConfig: true}
			_ = n.try()
			n.finished[pod.UID] = true
		}
		n.want(newPod("desired"))
		n.workers["desired"] = Worker{HasConfig: true}
		n.logDirs["p7"] = true
		_ = n.try()
		n.runsErr = errors.New("runtime is down")
		<-time.After(2 * time.Minute)
		_ = n.try()
		n.log = nil
		if len(n.seen) != 101 {
			t.Errorf("after an incomplete look %d pods are remembered, want 101", len(n.seen))
		}
		n.runsErr = nil
		n.removeErr["logs p7"] = errors.New("busy")
		for range 3 {
			<-time.After(2 * time.Minute)
			_ = n.try()
		}
		if want := map[string]bool{"desired": true, "p7": true}; len(n.seen) != len(want) || !n.seen["p7"] || !n.seen["desired"] {
			t.Errorf("remembered: %v", n.seen)
		}
	})
}
