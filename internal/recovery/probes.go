package recovery

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status/checkpoint"
)

const (
	// diskTimeout is how long a disk that does not answer holds up what must happen all the same: the
	// announcement of a success, and the stop of a container that is to be started again.
	diskTimeout = 5 * time.Second
	// slowWait is from when a wait in vain was a long one. waitAgain is how long after it no other
	// announcement waits, unless the disk takes that record before: a disk that hangs must not
	// delay every container (IN1).
	slowWait  = time.Second
	waitAgain = time.Minute
)

// errHangs is why an announcement did not wait.
var errHangs = errors.New("the disk has not answered an earlier write")

// ProbeMemory keeps what probes found in the pods' records (spec/probe.md 8.3). That a container
// has started or is ready is not announced before it is on the disk: it must not be taken back just
// because the agent was killed.
type ProbeMemory struct {
	journal *Journal

	mu sync.Mutex
	// unwritten holds the successes that are not on the disk yet, with their pods.
	unwritten map[probeKey]types.UID
	// stuck is the pod whose success was waited for long and in vain. While the disk does not have
	// it, nothing waits until waitAfter. Empty: none.
	stuck     types.UID
	waitAfter time.Time
}

// Records is what the reference syncer sees of the records; see podsync.Records.
type Records struct {
	*Journal
	*ProbeMemory
}

type probeKey struct {
	kind probe.Kind
	id   runtime.ContainerID
}

var _ probe.Memory = (*ProbeMemory)(nil)

// NewProbeMemory returns the memory of the probes.
func NewProbeMemory(j *Journal) *ProbeMemory {
	return &ProbeMemory{journal: j, unwritten: map[probeKey]types.UID{}}
}

// ProbeUnwritten reports whether a success is not on the disk yet.
func (m *ProbeMemory) ProbeUnwritten(k probe.Kind, id runtime.ContainerID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, unwritten := m.unwritten[probeKey{k, id}]
	return unwritten
}

// Wait returns once the success is on the disk. A disk that fails holds nothing up, and one that
// hangs holds up one announcement a minute.
func (m *ProbeMemory) Wait(ctx context.Context, a probe.Announcement) {
	if !m.ProbeUnwritten(a.Kind, a.ID) {
		return
	}
	err := errHangs
	if !m.hangs(ctx) {
		limited, cancel := timing.WithTimeout(ctx, m.journal.clock, diskTimeout)
		defer cancel()
		began := m.journal.clock.Now()
		if err = m.journal.keeper.Sync(limited, a.UID); err != nil && m.journal.clock.Since(began) >= slowWait {
			m.mu.Lock()
			m.stuck, m.waitAfter = a.UID, m.journal.clock.Now().Add(waitAgain)
			m.mu.Unlock()
		}
	}
	if err != nil {
		m.journal.logger.Error(err, "A container started or became ready without a checkpoint",
			"uid", a.UID, "container", a.ID.String(), "probe", a.Kind.String())
	}
	m.note(a.UID, a.Kind, a.ID, false)
}

// hangs reports whether the disk still has not taken the record that a wait was given up for.
func (m *ProbeMemory) hangs(ctx context.Context) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stuck == "" {
		return false
	}
	if m.journal.clock.Now().Before(m.waitAfter) && !m.journal.written(ctx, m.stuck) {
		return true
	}
	m.stuck = ""
	return false
}

func (m *ProbeMemory) note(uid types.UID, k probe.Kind, id runtime.ContainerID, unwritten bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if unwritten {
		m.unwritten[probeKey{k, id}] = uid
	} else {
		delete(m.unwritten, probeKey{k, id})
	}
}

// ForgetProbes drops what still waits for a pod whose containers have stopped.
func (m *ProbeMemory) ForgetProbes(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.unwritten, func(_ probeKey, owner types.UID) bool { return owner == uid })
}

// Recall returns what is recorded of this run of a container. Records have nothing from before the
// machine was started (8.6).
func (m *ProbeMemory) Recall(uid types.UID, container string, id runtime.ContainerID) *probe.Record {
	r := m.journal.keeper.Get(uid)
	if r == nil {
		return nil
	}
	c, ok := r.Container(container)
	if !ok || c.ID != id.String() {
		return nil
	}
	out := &probe.Record{Started: c.Started || c.Probes[probe.Startup].Stored == probe.Success, Ready: c.Ready}
	for kind, fact := range c.Probes {
		out.Facts[kind] = fact
	}
	return out
}

// Remember records a result, unless the record is about another run by now.
func (m *ProbeMemory) Remember(uid types.UID, container string, id runtime.ContainerID, kind probe.Kind, f probe.Fact, news bool) {
	durable := false
	m.journal.keeper.Update(uid, func(r *checkpoint.Record) checkpoint.Class {
		c, ok := r.Container(container)
		if !ok || c.ID != id.String() {
			return checkpoint.Unchanged
		}
		durable = kind != probe.Liveness && news
		if c.Probes = maps.Clone(c.Probes); c.Probes == nil {
			c.Probes = map[probe.Kind]probe.Fact{}
		}
		c.Probes[kind] = f
		r.SetContainer(c)
		if durable {
			return checkpoint.Durable
		}
		return checkpoint.Lazy
	})
	if durable {
		m.note(uid, kind, id, f.Stored == probe.Success)
	}
}
