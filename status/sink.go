package status

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// StatusSink receives the status of pods: an API server, a file, a channel, a test.
//
// The manager calls Store from its own goroutines: for different pods concurrently
// (Options.MaxInFlight), for one pod never twice at once and with ascending versions; versions may
// be skipped. Store may block: it delays only later sends to the same sink, never other sinks or
// the callers of the manager. It must return soon after ctx ends (the manager ends it after
// Options.SendTimeout and when it stops). It may keep u.Status and u.Base but must treat both as
// read-only: they are shared with every other reader.
//
// Delivery is at least once: after an error, a timeout or a restart of the engine the same status
// may come again, so Store must be idempotent; it answers a status the sink already has with
// [Unchanged] or [Stored]. After an error the same or a newer version is offered again, with
// back-off, until the sink takes it or the pod is forgotten; that the pod is forgotten is offered
// too. A panic counts as an error.
//
// Abilities beyond this are separate interfaces, found by type assertion:
// [PodReader], [PodDeleter], [Persistent].
type StatusSink interface {
	// Store takes a status. Without an error, the result says what became of the status; with an
	// error, the result is ignored and the status is offered again.
	Store(ctx context.Context, u Update) (StoreResult, error)
}

// SinkFunc adapts a function to a [StatusSink].
type SinkFunc func(ctx context.Context, u Update) (StoreResult, error)

// Store calls f.
func (f SinkFunc) Store(ctx context.Context, u Update) (StoreResult, error) { return f(ctx, u) }

// StoreResult says what became of a status handed to a sink (spec/status.md 8.8).
type StoreResult uint8

// Store results. The zero value is not a result; the manager treats it as an
// error of the sink.
const (
	// Stored: the sink has taken the status.
	Stored StoreResult = iota + 1
	// Unchanged: the sink already had this status; nothing was written.
	Unchanged
	// Conflict: what the sink holds changed since Update.Base was read. The
	// manager reads and merges again, with back-off.
	Conflict
	// Gone: the sink does not know the pod. Nothing is lost, but nothing can be stored either; the
	// manager offers the status again after 10 s until the pod is forgotten. For a
	// finished pod of an API, whose UID never comes back, it does not ask again.
	Gone
	// Recreated: the pod with this namespace and name has another UID. The status is dropped; a
	// newer status of the old pod, should there ever be one, is offered once in the same way.
	Recreated
)

// String returns the result in lower case, as metrics and logs show it.
func (r StoreResult) String() string {
	switch r {
	case Stored:
		return "stored"
	case Unchanged:
		return "unchanged"
	case Conflict:
		return "conflict"
	case Gone:
		return "gone"
	case Recreated:
		return "recreated"
	default:
		return fmt.Sprintf("StoreResult(%d)", uint8(r))
	}
}

// PodRef names a pod at a sink. The UID is a precondition of every call: an object with the same
// namespace and name but another UID is another pod.
type PodRef struct {
	// UID is the pod's UID, or that of its mirror pod for a static pod at a sink with [PodReader].
	UID       types.UID
	Namespace string
	Name      string
}

// String returns namespace/name(uid).
func (r PodRef) String() string { return r.Namespace + "/" + r.Name + "(" + string(r.UID) + ")" }

// Update is one status on its way to a sink.
type Update struct {
	PodRef
	// Version counts the accepted changes of the pod, from 1. After a restart of the engine it
	// continues, with a gap, if the engine remembers statuses ([Journal]); otherwise, and when a
	// forgotten pod comes back, it starts again at 1.
	//
	// One version may come with two statuses: the end of a pod is held back while a container may
	// still run, and then comes first with the phase before it, later with its own. So store an
	// update whose version is known, unless its status is known too.
	Version uint64
	// Status is the complete status to store, already merged with what the sink has (spec/status.md
	// 8.4). Read-only.
	Status *v1.PodStatus
	// Base is the status the sink had when Status was merged: what [PodReader]
	// returned, or the last one this sink took. Nil if neither is known; then
	// store Status unconditionally. Read-only.
	Base *v1.PodStatus
	// Finished is true once everything that the engine held for the pod is released: no newer
	// status follows, except for corrections.
	Finished bool
	// Forgotten: no source wants the pod, and the engine no longer knows it; a database may delete
	// its row. Status is its end, Succeeded or Failed. It is the last update of this life of the
	// UID. Sinks with [PodReader] do not get it: there, the pod itself is deleted.
	Forgotten bool
}

// PodReader is an optional ability of a [StatusSink] in front of an API that others write to as
// well. The manager reads before each send, merges the conditions and fields that others own, and
// skips the send if nothing differs. Static pods are sent to such a sink under their mirror pod,
// and not at all while they have none.
type PodReader interface {
	// ReadPod returns the pod as the API has it now, or (nil, nil) if it does not exist. It may
	// return a pod with another UID than ref's: the manager handles that. The result remains the
	// sink's; the manager does not modify it. Concurrency and time limits are those of Store.
	ReadPod(ctx context.Context, ref PodRef) (*v1.Pod, error)
}

// Persistent is an optional ability of a [StatusSink] that, after a restart of the process, still
// has what it took before: it is not told of the end of a pod again, and of other pods once the
// process has looked at them. A sink with neither this nor [PodReader] gets the status of every pod
// once more. Persistent sinks, and those that are a [PodReader], need names of their own (Options.Sinks).
type Persistent interface {
	// Persistent never changes its answer.
	Persistent() bool
}

// PodDeleter is an optional ability of a [StatusSink]: it deletes pods once they are finished
// (spec/status.md 8.6).
type PodDeleter interface {
	// DeletePod deletes the pod at once (grace 0) if its UID is ref.UID. If the pod is gone or was
	// replaced, that is success. On an error the call is repeated with back-off. It is called only
	// for pods that have a deletionTimestamp, whose stored phase is terminal, and that the engine
	// has finished, never for mirror pods. Concurrency and time limits are those of Store.
	DeletePod(ctx context.Context, ref PodRef) error
}
