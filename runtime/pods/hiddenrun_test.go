package pods_test

import (
	"testing"
	"testing/synctest"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// spec/runtime.md 1.3, 2.8: lists lacked ended runs when the one that goes on was made, so its count is lower than theirs. The
// run that replaces it counts on from the highest, otherwise two runs share a number and a log.
func TestRestartCountAfterHiddenRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod()
		hidden := map[string]bool{}
		end := func() {
			hidden[w.read(pod).Container("app").ID.ID] = true
			if err := w.fake.Exit(pod.UID, "app", fake.Exit{Code: 1}); err != nil {
				t.Fatal(err)
			}
			pass(second)
		}
		w.syncAll(pod)
		end()
		w.syncAll(pod)
		end()
		show := w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.ListContainers}, Effect: fake.Effect{Keep: func(id string) bool { return !hidden[id] }}})
		w.restart()
		for w.state(pod) != "app:running" {
			w.syncAll(pod)
			pass(second)
		}
		show()
		if c := w.read(pod).Container("app"); c.State != runtime.Running || c.RestartCount != 0 || len(w.read(pod).Containers) != 3 {
			for _, c := range w.read(pod).Containers {
				t.Logf("%s %s #%d %s", c.ID.ID, c.State, c.RestartCount, c.LogPath)
			}
			t.Fatalf("%v", w.calls(fake.CreateContainer, fake.StartContainer, fake.RemoveContainer))
		}
		pod.Spec.Containers[0].Image = "example.com/app:2"
		w.syncAll(pod)
		counts := map[int]int{}
		for _, c := range w.read(pod).Containers {
			counts[c.RestartCount]++
			t.Logf("%s %s #%d %s", c.ID.ID, c.State, c.RestartCount, c.LogPath)
		}
		c := w.read(pod).Container("app")
		if c.State != runtime.Running || c.RestartCount != 2 {
			t.Errorf("%s with restart count %d, want running with 2; containers by count: %v", c.State, c.RestartCount, counts)
		}
		if err := w.fake.Doubled(); err != nil {
			t.Error(err)
		}
	})
}
