package podwrighttest

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/syncloop"
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

// lastWords is a source that does something when its engine ends.
type lastWords struct {
	syncloop.Source
	say func()
}

func (l lastWords) Name() string { return "last words" }

func (l lastWords) Run(ctx context.Context, _ func(context.Context, []*v1.Pod) error) error {
	<-ctx.Done()
	l.say()
	return nil
}

// The same is true of the state that is not records.
func TestCrashLeavesTheStateAsItWas(t *testing.T) {
	for name, end := range map[string]func(n *Node){"stop": (*Node).Stop, "crash": (*Node).Crash} {
		t.Run(name, func(t *testing.T) {
			var dir string
			write := func(name, text string) {
				if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
					t.Error(err)
				}
			}
			o := Options{Configure: func(c *podwright.Config) {
				dir = filepath.Join(c.RootDir, "state")
				c.Sources = append(c.Sources, lastWords{say: func() { write("old", "new text"); write("new", "") }})
			}}
			Run(t, o, func(n *Node) {
				n.Add(Pod("web"))
				n.Advance(0)
				write("old", "text")
				end(n)
				old, err := os.ReadFile(filepath.Join(dir, "old"))
				if wrote := string(old) != "text"; err != nil || wrote != (name == "stop") {
					t.Errorf("%q, %v", old, err)
				}
				if _, err := os.Stat(filepath.Join(dir, "new")); (err == nil) != (name == "stop") {
					t.Error(err)
				}
				n.Start()
			})
		})
	}
}
