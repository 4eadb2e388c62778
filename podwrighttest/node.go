package podwrighttest

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// Options configure a node. The zero value is a node whose containers run until they are stopped.
type Options struct {
	// Programs are what containers do, by "container" or "pod/container"; the latter takes
	// precedence. A container without one runs until it is stopped. See [ParsePrograms].
	Programs map[string]Program
	// Configure changes the configuration of each engine that is started; it may be nil. Add sinks, events
	// and sources to those that are already there, because the node's methods depend on these.
	Configure func(c *podwright.Config)
	// Runtime are the options of the runtime: images, a registry. If it has a Script, Programs are
	// ignored.
	Runtime fake.Options
	// Patience is how long the Wait methods wait, in virtual time. 0 means 10 minutes.
	Patience time.Duration
}

// Node is a machine with a runtime and a disk, and the engine on it, if one runs. Call its methods
// from the goroutine of the test; they fail the test if they cannot do what they say.
// Pods are named "name", in namespace default, or "namespace/name".
type Node struct {
	t       *testing.T
	options Options
	runtime *fake.Runtime
	clock   clock.RealClock // virtual in a bubble
	root    string
	state   string // the folder of what the engine writes itself
	seen    observed

	desired []*v1.Pod
	boots   int
	engine  *podwright.Engine
	life    *life
	source  *source.Channel
	own     bool // the engine's sources include source
	cancel  context.CancelFunc
	ended   chan error

	mu       sync.Mutex
	programs map[string]Program
	disk     *checkpointtest.Disk
}

// Run runs a test with a node, in a bubble of its own (testing/synctest). The node is
// stopped when f returns.
func Run(t *testing.T, o Options, f func(n *Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(Start(t, o)) })
}

// Start returns a node on which an engine runs, for a test that already has a bubble. The node
// is stopped at the end of t.
func Start(t *testing.T, o Options) *Node {
	t.Helper()
	if o.Patience == 0 {
		o.Patience = 10 * time.Minute
	}
	n := &Node{t: t, options: o, root: t.TempDir(), boots: 1, disk: &checkpointtest.Disk{}, programs: maps.Clone(o.Programs)}
	if n.programs == nil {
		n.programs = map[string]Program{}
	}
	for key, p := range n.programs {
		if err := p.check(); err != nil {
			t.Fatalf("podwrighttest: program %q: %v", key, err)
		}
	}
	if o.Runtime.Script == nil {
		o.Runtime.Script = n.script
	}
	o.Runtime.WriteLogs = true
	n.runtime = fake.New(o.Runtime)
	n.Start()
	t.Cleanup(func() {
		if n.engine != nil {
			n.Stop()
		}
	})
	return n
}

// Engine returns the engine that runs, nil after Stop, Crash and Reboot.
func (n *Node) Engine() *podwright.Engine { return n.engine }

// Runtime returns the node's runtime, for faults and questions beyond those of Node: it counts
// starts, records all calls, and can fail in every way.
func (n *Node) Runtime() *fake.Runtime { return n.runtime }

// Start starts an engine on what the previous one left, with the same desired pods, and returns
// once it has accepted them.
func (n *Node) Start() {
	n.t.Helper()
	if n.engine != nil {
		n.t.Fatal("Start: an engine is already running")
	}
	n.life = &life{}
	n.source = source.NewChannel(source.ChannelOptions{NodeName: "node", MaxPods: -1})
	config := n.config()
	n.own = slices.Contains(config.Sources, syncloop.Source(n.source))
	engine, err := podwright.New(config)
	if err != nil {
		n.t.Fatalf("Start: %v", err)
	}
	ctx, cancel := context.WithCancel(n.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	n.engine, n.cancel, n.ended = engine, cancel, ended
	if n.own {
		n.deliver()
	}
}

// config returns the configuration of the next engine.
func (n *Node) config() podwright.Config {
	c := podwright.Config{
		Runtime: n.runtime, Images: n.runtime, Sources: []syncloop.Source{n.source}, RootDir: n.root,
		Node: podwright.Node{Name: "node", IPs: []string{"192.0.2.1"}, BootID: fmt.Sprint("boot-", n.boots)},
	}
	c.Storage.LogDir = filepath.Join(n.root, "logs")
	c.Observe.Sinks, c.Observe.Events = append(c.Observe.Sinks, sink{n}), events{n}
	c.Checkpoints.Store = checkpoint.NewFiles(&checkpointtest.Points{FS: n.disk, Before: n.life.write, After: n.life.write})
	c.Checkpoints.Reserve = -1                // a megabyte per test
	c.Workers.DrainTimeout = time.Millisecond // an engine that is killed finishes nothing
	if n.options.Configure != nil {
		n.options.Configure(&c)
	}
	n.life.bound(&c.Observe)
	n.state = filepath.Join(c.RootDir, "state")
	return c
}

// Stop ends the engine by ending its context. The pods keep running.
func (n *Node) Stop() {
	n.t.Helper()
	if err := n.end("Stop"); err != nil {
		n.t.Errorf("Stop: the engine's Run: %v", err)
	}
}

// Crash ends the engine as kill -9 does: what it has not written is lost, and nothing that it does while it
// ends reaches its records and other state, or the sinks and the recorder, those of Options.Configure
// included. A call of a sink that is under way gets to its end. The pods keep running.
func (n *Node) Crash() {
	n.t.Helper()
	n.life.over.Store(true)
	files, err := stateFiles(n.state)
	if err != nil {
		n.t.Fatalf("Crash: %v", err)
	}
	_ = n.end("Crash") // the error of a dying engine does not matter
	if err := putBack(n.state, files); err != nil {
		n.t.Fatalf("Crash: %v", err)
	}
}

// Reboot crashes the engine as a power failure does, and boots the machine: all containers have
// ended, and only the records that were synced are left. Start starts the next engine.
func (n *Node) Reboot() {
	n.t.Helper()
	n.Crash()
	n.mu.Lock()
	n.disk = n.disk.LosePower(nil)
	n.mu.Unlock()
	n.runtime.Reboot()
	n.boots++
}

// Restart calls Crash and then Start.
func (n *Node) Restart() {
	n.t.Helper()
	n.Crash()
	n.Start()
}

func (n *Node) end(what string) error {
	n.t.Helper()
	if n.engine == nil {
		n.t.Fatalf("%s: no engine runs", what)
	}
	n.cancel()
	err := <-n.ended
	n.engine = nil
	return err
}
