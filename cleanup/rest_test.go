package cleanup

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestRestsWhileNothingIsLeft is HK6: passes can be left out only while nothing is left to do, to
// wait for or to try again.
func TestRestsWhileNothingIsLeft(t *testing.T) {
	for _, test := range []struct {
		name  string
		want  time.Duration
		after time.Duration // of a second pass, with nothing done in between
		edit  func(*Options)
		n     func(*node)
	}{
		{name: "an empty node", want: maxRest, after: maxRest},
		{name: "a pod that runs", want: maxRest, after: maxRest, n: func(n *node) {
			n.desired["a"], n.workers["a"], n.runs["a"], n.podDirs["a"] = newPod("a"), Worker{HasConfig: true}, true, true
		}},
		{name: "a pod that has ended and stays desired", want: maxRest, after: maxRest, n: func(n *node) {
			n.desired["a"], n.workers["a"], n.phases["a"] = newPod("a"), Worker{State: WorkerTerminated, HasConfig: true}, v1.PodSucceeded
		}},
		{name: "a pod that is ending", n: func(n *node) {
			n.desired["a"], n.workers["a"], n.runs["a"] = newPod("a"), Worker{State: WorkerTerminating, HasConfig: true}, true
		}},
		{name: "a pod that is not desired", n: func(n *node) { n.workers["a"], n.runs["a"] = Worker{HasConfig: true}, true }},
		{name: "a pod without a worker", after: maxRest, n: func(n *node) { n.desired["a"] = newPod("a") }},
		{name: "an orphan", n: func(n *node) { n.runs["a"] = true }},
		{name: "a folder, removed at once", after: maxRest, n: func(n *node) { n.podDirs["a"] = true }},
		{name: "a folder that cannot be removed", n: func(n *node) {
			n.podDirs["a"], n.removeErr["folder a"] = true, errors.New("busy")
		}},
		{name: "a vetoed removal", n: func(n *node) { n.podDirs["a"] = true }, edit: func(o *Options) {
			o.Veto = func(Action) error { return errors.New("not now") }
		}},
		{name: "content that may be left", after: maxRest, n: func(n *node) { n.Finished("a") }},
		{name: "the list fails", n: func(n *node) { n.runsErr = errors.New("down") }},
		{name: "folders cannot be listed", n: func(n *node) { n.listErr = errors.New("disk") }},
		{name: "nothing may be set up", n: func(n *node) { n.gateErr = errors.New("shutdown") }},
		{name: "not all sources were seen", n: func(n *node) { n.notReady = true }},
		{name: "a source cannot name its pods", edit: func(o *Options) {
			o.Undecided = func() error { return errors.New("unreadable file") }
		}},
		{name: "without a collector", want: maxRest, after: maxRest, edit: func(o *Options) { o.Collector = nil }},
	} {
		bubble(t, test.name, func(t *testing.T) {
			n := newNode(t, test.edit)
			if test.n != nil {
				test.n(n)
			}
			for i, want := range []time.Duration{test.want, test.after} {
				_ = n.try()
				if n.rests != want {
					t.Errorf("after pass %d: rests %v, want %v", i+1, n.rests, want)
				}
			}
		})
	}
}

// TestRestEndsWithTheCollector is HK6: the collector's run is not late.
func TestRestEndsWithTheCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, func(o *Options) { o.CollectPeriod = 10 * time.Second })
		n.pass(t, "a pass")
		if n.rests <= 0 || n.rests > 10*time.Second {
			t.Errorf("rests %v, with a run of the collector every 10 s", n.rests)
		}
	})
}
