package pleg

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// Dump is a snapshot for bug reports (B11).
type Dump struct {
	// Global is the stamp up to which every pod that is not outstanding is known; 0 before the
	// first relist.
	Global runtime.Stamp
	// Pods are sorted by UID.
	Pods []PodDump
	// Malformed counts the objects of the last list without ID or metadata, Foreign those that
	// belong to another owner.
	Malformed, Foreign int
	// Conflicts counts how often an ID turned up in a second pod.
	Conflicts int
}

// PodDump is what the generator knows of one pod.
type PodDump struct {
	UID             types.UID
	Name, Namespace string
	// Fingerprint stands for the listed containers and sandboxes and their states; it is comparable
	// only within one process.
	Fingerprint uint64
	// Modified is the stamp of the last reading, Observed that of the last look that found nothing
	// new. ObservedAt is the wall time of the last good reading.
	Modified, Observed runtime.Stamp
	ObservedAt         time.Time
	// Err is why the last reading failed.
	Err error
	// Outstanding says why Global does not cover the pod; empty if it does.
	Outstanding string
	// Held is true between Hold and Release, Reading while a reading is in progress; Failures
	// counts consecutive readings that ran out of time.
	Held, Reading bool
	Failures      int
}

// Dump returns what is known of every pod. It is safe at any time and costs
// time in proportion to the number of pods.
func (g *Generator) Dump() Dump {
	g.mu.Lock()
	defer g.unlock()
	d := Dump{Malformed: g.scan.count.malformed, Foreign: g.scan.count.foreign, Conflicts: g.conflicts}
	for _, r := range g.records {
		if r.dropped {
			continue
		}
		p := PodDump{
			UID: r.uid, Name: r.name, Namespace: r.namespace, Fingerprint: r.fingerprint,
			Held: r.holds > 0, Reading: r.busy, Failures: r.failures,
		}
		if r.open {
			p.Outstanding = r.why
		}
		d.Pods = append(d.Pods, p)
	}
	slices.SortFunc(d.Pods, func(a, b PodDump) int { return cmp.Compare(a.UID, b.UID) })

	g.cache.mu.RLock()
	defer g.cache.mu.RUnlock()
	d.Global = g.cache.global
	for i := range d.Pods {
		p := &d.Pods[i]
		if e := g.cache.entries[p.UID]; e != nil {
			p.Modified, p.Observed, p.Err = e.modified, e.observed, e.err
			if e.status != nil {
				p.ObservedAt = e.status.ObservedAt
			}
		}
	}
	return d
}
