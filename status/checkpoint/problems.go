package checkpoint

import (
	"fmt"
	"maps"
	"slices"

	"github.com/podwright/podwright/internal/problem"
)

// Problems returns what keeps records from the disk: a store that fails or does not answer, space
// that could not be set apart, and each unusable record that has not been replaced by a new one
// (see [Keeper.Dismiss]).
func (k *Keeper) Problems() []problem.Problem {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []problem.Problem
	now := k.options.Clock.Now()
	if k.fault.err != nil {
		out = append(out, k.failing())
	}
	if !k.writing.IsZero() && now.Sub(k.writing) >= problem.RecordLimit {
		out = append(out, problem.Problem{
			Kind: problem.Record, Severity: problem.Unhealthy, Name: "store", Since: k.writing,
			Waits:  "the disk to answer a write",
			Advice: "look at the disk of the engine's folder: a mount that hangs, or a device that fails",
		})
	}
	if !k.spent.IsZero() {
		out = append(out, problem.Problem{
			Kind: problem.Record, Severity: problem.Listed, Name: "reserve", Since: k.spent,
			Waits: "room on the disk, to set space apart again", Advice: "make room on the disk of the engine's folder",
		})
	}
	for _, name := range slices.Sorted(maps.Keys(k.bad)) {
		b := k.bad[name]
		p := problem.Problem{
			Kind: problem.Record, Severity: problem.Listed, Name: name, UID: b.UID, Since: k.loadedAt,
			Waits:  "a new record in its place",
			Advice: "nothing, if the pod runs: its next record replaces this one; otherwise remove the file",
		}
		switch b.Trouble {
		case unreadable:
			p.Advice = "look at the disk of the engine's folder; the next start reads the file again, unless the pod's next record has replaced it; remove it if the pod is gone"
		case newer:
			p.Advice = "run the version that wrote it; or remove the file, and the pod's next record takes its place"
		case sealed:
			p.Advice = "start with that key too: the record takes its place again; remove the file if the key is lost"
		case unsealed:
			p.Advice = "if records were not sealed so far, start once with Checkpoints.TrustPlain; otherwise find out who wrote it"
		}
		out = append(out, p.Because(fmt.Errorf("checkpoint %s", b)))
	}
	return out
}

// failing returns the problem of a store that fails. While the store takes other records, it harms
// only the pods whose records it refuses. The lock is held.
func (k *Keeper) failing() problem.Problem {
	p := problem.Problem{
		Kind: problem.Record, Severity: problem.Unhealthy, Name: "store", Since: k.fault.since,
		Waits:  fmt.Sprintf("the disk to take the records of %d pods", len(k.dirty)),
		Advice: "make room on the disk of the engine's folder, or repair it; a pod whose record is not written is not set up",
	}
	if k.wrote.After(k.fault.since) {
		p.Severity = problem.Listed
	}
	return p.Because(&faultError{Pending: len(k.dirty), Since: k.fault.since, Err: k.fault.err})
}
