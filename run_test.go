package podwright

import (
	"slices"
	"testing"
)

// Every component of an engine has its own name. The records outlive all other components: they
// start first and stop last.
func TestComponentsOfAnEngine(t *testing.T) {
	list := minimalEngine(t).components()
	var names []string
	for i, c := range list {
		if slices.Contains(names, c.Name) || c.Run == nil {
			t.Errorf("component %d %q: named twice or not runnable", i, c.Name)
		}
		names = append(names, c.Name)
		if i > 0 && c.Stop > list[i-1].Stop {
			t.Errorf("%s stops after %s, but starts after it too", c.Name, list[i-1].Name)
		}
	}
	if names[0] != "checkpoint" {
		t.Errorf("%s starts first, want the checkpoints", names[0])
	}
}
