package enginetest_test

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
)

// host is a machine under test: a runtime and a disk that outlive agents, which are
// killed and started on it.
type host struct {
	t    *testing.T
	rt   *fake.Runtime
	disk *checkpointtest.Disk
	root string
	boot string

	mu sync.Mutex
	// dead: the agent was killed, and nothing more reaches the disk. full: nothing can be written.
	dead, full bool
	fullWhile  func() bool    // nil: never
	writes     map[string]int // of record files, by name
	points     int
	killAt     int           // at this point; 0 never
	killed     chan struct{} // closed then
}

func newHost(t *testing.T, rt *fake.Runtime) *host {
	return &host{t: t, rt: rt, disk: &checkpointtest.Disk{}, root: t.TempDir(), boot: "boot-1", writes: map[string]int{}}
}

// agent starts an agent; the previous agent must have been stopped or killed.
func (n *host) agent(configure ...func(*podwright.Config)) *rig {
	n.t.Helper()
	n.mu.Lock()
	n.dead, n.killed = false, make(chan struct{})
	n.mu.Unlock()
	disk := &checkpointtest.Points{FS: n.disk, Before: n.point, After: n.point}
	own := func(c *podwright.Config) {
		c.Checkpoints.Store, c.Node.BootID = checkpoint.NewFiles(disk), n.boot
		c.Workers.DrainTimeout = time.Millisecond // a killed agent finishes nothing
	}
	return newRig(n.t, n.rt, n.root, append([]func(*podwright.Config){own}, configure...)...).start()
}

// point is passed before and after each operation on the disk.
func (n *host) point(op checkpointtest.Op) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.points++; n.points == n.killAt {
		n.dead = true
		close(n.killed)
	}
	switch {
	case n.dead:
		return errors.New("the agent is dead")
	case (n.full || n.fullWhile != nil && n.fullWhile()) && (op.Kind == "write" || op.Kind == "rename"):
		return syscall.ENOSPC
	}
	if op.Kind == "rename" {
		n.writes[op.Name]++
	}
	return nil
}

// kill ends an agent as kill -9 and a loss of power would: what was not synced is lost, and the
// agent reports nothing at the end.
func (n *host) kill(r *rig) {
	n.mu.Lock()
	n.dead = true
	n.disk = n.disk.LosePower(nil)
	n.mu.Unlock()
	r.stop()
}

func (n *host) setFull(full bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.full = full
}

// setFullWhile makes the disk full as long as a condition holds.
func (n *host) setFullWhile(full func() bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fullWhile = full
}

// written returns how often the record of a pod was written.
func (n *host) written(uid types.UID) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.writes[string(uid)] / 2 // before and after
}

// records returns the records on the disk, by UID.
func (n *host) records() map[types.UID]*checkpoint.Record {
	n.t.Helper()
	loaded, err := checkpoint.NewFiles(n.disk).Inspect(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	out := map[types.UID]*checkpoint.Record{}
	for _, r := range loaded.Records {
		out[r.UID] = r
	}
	return out
}

// sinks sets the sinks of an agent.
func sinks(s ...status.StatusSink) func(*podwright.Config) {
	return func(c *podwright.Config) { c.Observe.Sinks = s }
}
