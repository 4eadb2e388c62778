package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Store keeps records where they survive the process. A [Keeper] calls it from one
// goroutine at a time, Load before anything else. Calls may block; they should end
// with ctx.
type Store interface {
	// Load returns every record. What cannot be used is listed in Loaded.Bad and is not an error;
	// an error means that nothing is known, as when open files have run out, and Load is called
	// again later.
	Load(ctx context.Context) (Loaded, error)
	// Write makes records durable, replacing older ones of the same UID. When it returns, each
	// record is durable or has a [*RecordError] in the error (errors.As on each joined error). A
	// crash leaves each pod its old record or its new one, never neither and never half of one.
	Write(ctx context.Context, records []*Record) error
	// Delete removes the records of UIDs for good; an unknown UID is no error.
	Delete(ctx context.Context, uids []types.UID) error
}

// Loaded is what a store held.
type Loaded struct {
	// Records in no particular order.
	Records []*Record
	// Bad lists what could not be used.
	Bad []Bad

	// stale are the records to write again unchanged: they are not sealed, or sealed with an older key.
	stale []types.UID
	// partial are the records that lost probe results of an unknown kind.
	partial []types.UID
}

// Trouble says what is wrong with something found in a store.
type Trouble string

// Troubles.
const (
	// corrupt: truncated, empty, or with a wrong checksum. It was set aside.
	corrupt Trouble = "corrupt"
	// newer: written by a later version. It is left as it is, and no record is
	// written in its place.
	newer Trouble = "newer format"
	// sealed: with a key that was not given. It was set aside, and takes its place again at a start
	// with the key if no new record has taken it.
	sealed Trouble = "sealed"
	// unsealed: not sealed, although there is a key, and not trusted. It was set aside like one
	// with an unknown key.
	unsealed Trouble = "not sealed"
	// unreadable: the disk does not return it. It is left as it is for the next start, unless a new
	// record takes its place.
	unreadable Trouble = "unreadable"
	// foreign: not ours. It is left as it is.
	foreign Trouble = "foreign"
)

// Bad is something in a store that is not a usable record.
type Bad struct {
	Trouble Trouble `json:"trouble"`
	// Name in the store, and the name it was moved to, if it was.
	Name  string `json:"name"`
	Aside string `json:"aside,omitempty"`
	// UID of the pod, if the name tells it.
	UID types.UID `json:"uid,omitempty"`
	// Err has the details. It never quotes the content.
	Err error `json:"-"`
}

// String names the record and what is wrong with it.
func (b Bad) String() string {
	text := fmt.Sprintf("%s: %s", b.Name, b.Trouble)
	if b.Err != nil {
		text += ": " + b.Err.Error()
	}
	if b.Aside != "" {
		text += ", moved to " + b.Aside
	}
	return text
}

// ErrReadOnly: a record of a newer version is in the way and is never replaced
// (spec/cleanup.md CK2).
var ErrReadOnly = errors.New("there is a record of a newer version, which is left as it is")

// RecordError says that the record of one pod was not written or deleted.
type RecordError struct {
	UID types.UID
	Err error
}

// Error names the pod.
func (e *RecordError) Error() string { return fmt.Sprintf("checkpoint of pod %s: %v", e.UID, e.Err) }

// Unwrap returns Err.
func (e *RecordError) Unwrap() error { return e.Err }
