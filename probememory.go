package podwright

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status/checkpoint"
)

// recordTimeout is how long a success waits for a disk that does not take it.
const recordTimeout = 5 * time.Second

// proven keeps what probes found in the pods' records (spec/probe.md 8.3). That a
// container has started or is ready is said to nobody before it is on the disk: who was
// told so must not hear otherwise only because the agent was killed.
type proven struct {
	journal *journal

	mu sync.Mutex
	// unwritten are successes that are not on the disk yet, and whose they are.
	unwritten map[provenKey]types.UID
}

type provenKey struct {
	kind probe.Kind
	id   runtime.ContainerID
}

var _ probe.Memory = (*proven)(nil)

// syncRecords is what the syncer needs of the records.
type syncRecords struct {
	*journal
	proven *proven
}

func (r syncRecords) ProbeUnwritten(k probe.Kind, id runtime.ContainerID) bool {
	return r.proven.open(k, id)
}

func (r syncRecords) ForgetProbes(uid types.UID) { r.proven.forget(uid) }

// open reports whether a success is still to be written.
func (m *proven) open(k probe.Kind, id runtime.ContainerID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, unwritten := m.unwritten[provenKey{k, id}]
	return unwritten
}

// wait returns once a success is on the disk. A disk that fails holds up nothing.
func (m *proven) wait(ctx context.Context, a probe.Announcement) {
	if !m.open(a.Kind, a.ID) {
		return
	}
	ctx, cancel := timing.WithTimeout(ctx, m.journal.clock, recordTimeout)
	defer cancel()
	if err := m.journal.keeper.Sync(ctx, a.UID); err != nil {
		m.journal.logger.Error(err, "a container starts or gets ready without a checkpoint", "uid", a.UID, "container", a.ID.String(), "probe", a.Kind.String())
	}
	m.note(a.UID, a.Kind, a.ID, false)
}

func (m *proven) note(uid types.UID, k probe.Kind, id runtime.ContainerID, unwritten bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if unwritten {
		m.unwritten[provenKey{k, id}] = uid
	} else {
		delete(m.unwritten, provenKey{k, id})
	}
}

// forget drops what waits of a pod whose containers have stopped.
func (m *proven) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.unwritten, func(_ provenKey, owner types.UID) bool { return owner == uid })
}

// probeKinds are the names of the kinds in a record.
func probeKinds() [3]checkpoint.ProbeKind {
	return [...]checkpoint.ProbeKind{
		probe.Startup: checkpoint.Startup, probe.Liveness: checkpoint.Liveness, probe.Readiness: checkpoint.Readiness,
	}
}

// Recall reads what is recorded of this very run of a container; nothing counts that
// is from before the machine was started (8.6).
func (m *proven) Recall(uid types.UID, container string, id runtime.ContainerID) *probe.Record {
	r := m.journal.keeper.Get(uid)
	if r == nil || rebooted(r, m.journal.bootID) {
		return nil
	}
	c, ok := r.Container(container)
	if !ok || c.ID != id.String() {
		return nil
	}
	out := &probe.Record{Started: c.Started || c.Probes[checkpoint.Startup].Success, Ready: c.Ready}
	for kind, name := range probeKinds() {
		p, ok := c.Probes[name]
		if !ok {
			continue
		}
		out.Facts[kind] = probe.Fact{Stored: resultOf(p.Success), Last: resultOf(p.LastSuccess), Run: int32(p.Run), At: p.At} //nolint:gosec // it was an int32
	}
	return out
}

func resultOf(success bool) probe.Result {
	if success {
		return probe.Success
	}
	return probe.Failure
}

// Remember notes a result, unless the record is about another run by now.
func (m *proven) Remember(uid types.UID, container string, id runtime.ContainerID, kind probe.Kind, f probe.Fact, news bool) {
	name := probeKinds()[kind]
	fresh := checkpoint.ProbeResult{
		Success: f.Stored == probe.Success, LastSuccess: f.Last == probe.Success, Run: int(f.Run), At: f.At,
	}
	durable := false
	m.journal.keeper.Update(uid, func(r *checkpoint.Record) checkpoint.Class {
		c, ok := r.Container(container)
		if !ok || c.ID != id.String() {
			return checkpoint.Unchanged
		}
		durable = kind != probe.Liveness && news
		if c.Probes = maps.Clone(c.Probes); c.Probes == nil {
			c.Probes = map[checkpoint.ProbeKind]checkpoint.ProbeResult{}
		}
		c.Probes[name] = fresh
		r.SetContainer(c)
		if durable {
			return checkpoint.Durable
		}
		return checkpoint.Lazy
	})
	if durable {
		m.note(uid, kind, id, fresh.Success)
	}
}
