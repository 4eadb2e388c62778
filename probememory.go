package podwright

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status/checkpoint"
)

// probeMemory keeps what probes found in the pods' records (spec/probe.md 8.3).
type probeMemory struct{ journal *journal }

var _ probe.Memory = probeMemory{}

// probeKinds are the names of the kinds in a record.
func probeKinds() [3]checkpoint.ProbeKind {
	return [...]checkpoint.ProbeKind{
		probe.Startup: checkpoint.Startup, probe.Liveness: checkpoint.Liveness, probe.Readiness: checkpoint.Readiness,
	}
}

// Recall reads what is recorded of this very run of a container; nothing counts that
// is from before the machine was started (8.6).
func (m probeMemory) Recall(uid types.UID, container string, id runtime.ContainerID) *probe.Record {
	r := m.journal.keeper.Get(uid)
	if r == nil || rebooted(r, m.journal.bootID) {
		return nil
	}
	c, ok := r.Container(container)
	if !ok || c.ID != id.String() {
		return nil
	}
	out := &probe.Record{Started: c.Started, Ready: c.Ready}
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
func (m probeMemory) Remember(uid types.UID, container string, id runtime.ContainerID, kind probe.Kind, f probe.Fact) {
	name := probeKinds()[kind]
	fresh := checkpoint.ProbeResult{
		Success: f.Stored == probe.Success, LastSuccess: f.Last == probe.Success, Run: int(f.Run), At: f.At,
	}
	m.journal.keeper.Update(uid, func(r *checkpoint.Record) checkpoint.Class {
		c, ok := r.Container(container)
		if !ok || c.ID != id.String() {
			return checkpoint.Unchanged
		}
		if c.Probes = maps.Clone(c.Probes); c.Probes == nil {
			c.Probes = map[checkpoint.ProbeKind]checkpoint.ProbeResult{}
		}
		c.Probes[name] = fresh
		r.SetContainer(c)
		return checkpoint.Lazy
	})
}
