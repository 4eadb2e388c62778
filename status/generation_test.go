package status

import "testing"

// TestProbeResultObservesNoGeneration: spec/status.md 5.8, 7.2, 7.6, 7.7. What a probe says about a container does not mean
// that anything was done about a newer spec of its pod. What a sync or the end of the pod says does.
func TestProbeResultObservesNoGeneration(t *testing.T) {
	m, _ := managed(t, Options{})
	pod := newPod(apps("a0"))
	set(t, m, pod, scene(newPod(), "A r"))
	observed := func(what string, versions uint64, want int64) {
		t.Helper()
		got, _ := m.Get(pod.UID)
		if v := version(m, pod.UID); v != versions || got.ObservedGeneration != want {
			t.Errorf("%s: generation %d in version %d, want %d in %d", what, got.ObservedGeneration, v, want, versions)
		}
		for _, c := range got.Conditions {
			if c.ObservedGeneration > want {
				t.Errorf("%s: %s is of generation %d", what, c.Type, c.ObservedGeneration)
			}
		}
	}
	second := pod.DeepCopy()
	second.Generation = 2
	m.ObservePod(second)
	m.SetContainerStartup(pod.UID, id("a0", 0), true)
	observed("started", 2, 1)
	m.SetContainerReadiness(pod.UID, id("a0", 0), true)
	observed("ready", 3, 1)
	same, _ := m.Get(pod.UID)
	set(t, m, second, &same)
	observed("synced", 4, 2)
	set(t, m, pod, &same) // by a step that began before
	observed("synced as it was", 4, 2)
	third := pod.DeepCopy()
	third.Generation = 3
	if err := m.TerminatePod(third); err != nil {
		t.Fatal(err)
	}
	observed("finished", 5, 3)
}
