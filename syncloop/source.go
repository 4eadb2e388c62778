package syncloop

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
)

// SourceAPI is the name of the source whose pods are not static: the adapter of an API
// server. This module contains no API client, so the user writes it (module kube has one). It
// is an ordinary [Source] with these duties (spec/syncloop.md 4.5):
//
//   - It lists and watches the pods of this node in all namespaces, beginning only
//     when the node object is known, and delivers the full set after every event (A1,
//     A2).
//   - It keeps its set when the watch breaks: Run returns the error, the loop runs it
//     again, and its next full list counts (A3). It never delivers part of a list.
//   - It delivers a pod under the UID the API gave it; a new UID under an old name is
//     another pod (A4). The status it delivers is the API's. Mirror pods carry the
//     annotation kubernetes.io/config.mirror.
//   - It has [PrecedenceAPI].
const SourceAPI = podinfo.SourceAPI

// Source delivers the pods that one origin desires.
//
// Run blocks until ctx ends, the source is closed for good (nil), or it fails. The loop
// stops waiting for it 5 s after ctx has ended. A source that is closed before its first
// delivery has not said that it wants no pods: it stays undecided, and unknown running pods
// are left alone. A source that fails is run again after a back-off of 1 s, doubling up to
// 20 s; meanwhile its pods stay as they are.
//
// deliver hands over the full set that the source wants now. A pod that is missing from the
// set is removed; nil or an empty set removes all of them (SRC3). deliver returns once the
// difference is in the loop's queue, or with ctx's error, in which case nothing has changed.
// It may block while the loop is slow. The pods still belong to the source: deliver copies
// them before it returns. It is an error to call deliver after Run has returned or ctx has
// ended; calls from several goroutines are serialized.
//
// Every pod needs a UID, which can be the name of a folder; a pod without one is left out (M9).
// Otherwise pods are taken as they are: complete those that no API server has completed with
// source.Default of package syncloop/source. Without it a pod has 1 s to stop, not 30 s.
// source.Validate finds pods that could not run.
type Source interface {
	// Name identifies the source, also in the annotation kubernetes.io/config.source. It
	// never changes, is not empty and is unique within a loop.
	Name() string
	// Run delivers sets until ctx ends or the source is closed.
	Run(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) error
}

// Precedence decides between sources that want a pod of the same full name: the higher value wins.
// Of sources with equal values the one that has the name keeps it; if none has it, the lexically
// smaller source name wins (M4). A UID stays with the source that had it first, whatever the values (PS6).
type Precedence int

// Precedences of the kinds of sources.
const (
	PrecedenceAPI Precedence = iota
	PrecedenceHTTP
	PrecedenceFile
	PrecedenceInProcess
)

// Preceded is an optional ability of a [Source]. A source without it has
// [PrecedenceInProcess].
type Preceded interface {
	// Precedence never changes.
	Precedence() Precedence
}

// HealthReporter is an optional ability of a [Source]: to report read failures.
type HealthReporter interface {
	// Health returns how recent reads of the source went. It is safe for concurrent
	// use and does not block.
	Health() SourceHealth
}

// Undecided is an optional ability of a [Source]: to report that a set may lack pods
// the source wants, because it cannot name them yet.
//
// A source keeps the pods that it can no longer read. A source that has just started has
// nothing to keep, and a pod that it cannot name may already be running. While a source is
// undecided, a pod that no set ever named may still be wanted, see [Loop.Undecided];
// everything except its removal continues.
type Undecided interface {
	// Undecided returns why the set delivered now may lack pods that are wanted,
	// nil if it names them all. It is asked once per delivery, by deliver, and
	// must not block.
	Undecided() error
}

// ObjectReferrer is an optional ability of a [Source]: to refuse pods that refer to config maps
// and secrets where there is nothing to read these from (D8).
type ObjectReferrer interface {
	// AllowObjects says that config maps and secrets can be read. It is called once, before
	// the first Run, and must not block.
	AllowObjects()
}

// SourceHealth is how recent reads of a source went.
type SourceHealth struct {
	// LastSuccess is when the source was last read completely; zero if never.
	LastSuccess time.Time
	// LastError is why the latest attempt failed, nil if it did not. Problems of
	// single pods that do not affect others do not count here. If LastErrorAt is not after
	// LastSuccess, it is a warning: what was read counts all the same.
	LastError error
	// LastErrorAt is when LastError was seen.
	LastErrorAt time.Time
	// Pending is when the read that has not ended yet began; zero if none is under way.
	Pending time.Time
}

// SourceStatus is what the loop knows about one source.
type SourceStatus struct {
	// Name and Precedence of the source.
	Name       string
	Precedence Precedence
	// Seen: the source has delivered its first set (R1a).
	Seen bool
	// Ready: seen, and the loop has consumed what it delivered first (R1b).
	Ready bool
	// Declared: seen only because the operator's deadline for it has passed; it has
	// delivered nothing (R5).
	Declared bool
	// Closed: Run has returned nil, and the source will deliver nothing more.
	Closed bool
	// Pods is the number of pods that the source wants, including those that lost
	// to another source; Suppressed is how many lost.
	Pods, Suppressed int
	// LastDelivery is when the source last delivered a set; zero if never.
	LastDelivery time.Time
	// Started is when the source was first run; zero: not yet.
	Started time.Time
	// RunError is why Run last failed, nil after the next delivery.
	RunError error
	// FailingSince is when Run first failed without a delivery since; it only counts while
	// RunError is not nil.
	FailingSince time.Time
	// Undecided is why the source may want pods that it has not named, see the
	// interface; nil from the moment the loop has handled a set that names all.
	Undecided error
	// UndecidedSince is when it became undecided; zero if it is not.
	UndecidedSince time.Time
	// Health as reported by the source; zero if it does not report it.
	Health SourceHealth
}
