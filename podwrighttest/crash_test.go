package podwrighttest

import (
	"maps"
	"testing"
)

// records returns what is on a node's disk.
func (n *Node) records() map[string]string {
	n.t.Helper()
	out := map[string]string{}
	for _, name := range n.disk.Names() {
		text, err := n.disk.Read(name, 1<<20)
		if err != nil {
			n.t.Fatal(err)
		}
		out[name] = string(text)
	}
	return out
}

// An engine that is stopped writes what it still has to write; one that is killed does not.
func TestCrashWritesNothing(t *testing.T) {
	for name, end := range map[string]func(n *Node){"stop": (*Node).Stop, "crash": (*Node).Crash} {
		t.Run(name, func(t *testing.T) {
			Run(t, Options{}, func(n *Node) {
				n.Add(Pod("web"))
				n.WaitReady("web") // the record follows a second later
				before := n.records()
				end(n)
				if wrote := !maps.Equal(before, n.records()); wrote != (name == "stop") {
					t.Errorf("something was written at the end: %v", wrote)
				}
			})
		})
	}
}
