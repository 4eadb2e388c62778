package podwrighttest

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/status"
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

// slow is a sink and a recorder that take nothing before it is let go: the sink refuses, the recorder hangs.
type slow struct {
	free chan struct{}
	took atomic.Int32
}

func (s *slow) Store(context.Context, status.Update) (status.StoreResult, error) {
	select {
	case <-s.free:
		s.took.Add(1)
		return status.Stored, nil
	default:
		return 0, errors.New("not yet")
	}
}

func (s *slow) Eventf(apiruntime.Object, string, string, string, ...any) {
	<-s.free
	s.took.Add(1)
}

// A sink that takes statuses at last hears of them from an engine that stops, and a recorder of the events that waited
// for it; from one that was killed neither hears anything more, even if the next engine runs by then.
func TestCrashTellsNothing(t *testing.T) {
	for name, end := range map[string]func(n *Node){"stop": (*Node).Stop, "crash": (*Node).Crash} {
		t.Run("sink/"+name, func(t *testing.T) {
			var mine slow
			o := Options{Configure: func(c *podwright.Config) {
				mine.free = make(chan struct{})
				c.Observe.Sinks = append(c.Observe.Sinks, &mine)
				c.Sources = append(c.Sources, lastWords{say: func() { close(mine.free) }})
			}}
			Run(t, o, func(n *Node) {
				n.Add(Pod("web"))
				n.WaitReady("web")
				end(n)
				if told := mine.took.Load() > 0; told != (name == "stop") {
					t.Errorf("the sink was told at the end: %v", told)
				}
			})
		})
		t.Run("recorder/"+name, func(t *testing.T) {
			var mine slow
			o := Options{Configure: func(c *podwright.Config) {
				if mine.free == nil { // of the first engine
					mine.free = make(chan struct{})
					c.Observe.Events = &mine
				}
			}}
			Run(t, o, func(n *Node) {
				n.Add(Pod("web"))
				n.WaitReady("web")
				end(n)
				n.Start()
				close(mine.free)
				n.Advance(0)
				// The first event has reached the recorder before the end.
				if told := mine.took.Load() > 1; told != (name == "stop") {
					t.Errorf("the recorder was told after the end: %v", told)
				}
			})
		})
	}
}
