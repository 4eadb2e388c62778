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
	// Load returns every record there is. What cannot be used is in Loaded.Bad and
	// is no error; an error says that nothing can be known, and Load is called
	// again later.
	Load(ctx context.Context) (Loaded, error)
	// Write makes records durable, replacing older ones of the same UID: when it
	// returns, each is on the disk or has a [*RecordError] in the error (errors.As
	// on each joined error); a record without one is durable. A crash leaves the
	// old record or the new one of each pod, never none and never half of one.
	Write(ctx context.Context, records []*Record) error
	// Delete removes the records of UIDs for good; an unknown UID is no error.
	Delete(ctx context.Context, uids []types.UID) error
}

// Loaded is what a store had.
type Loaded struct {
	// Records in no particular order.
	Records []*Record
	// Bad is what could not be used.
	Bad []Bad

	// stale are the records that are to be written as they are: not sealed, or with an older key.
	stale []types.UID
	// partial are the records whose probe results of an unknown kind were left out.
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
	// sealed: by a key that was not given. It was set aside, and takes its place again at a start
	// with the key if no new record has taken it.
	sealed Trouble = "sealed"
	// unsealed: not sealed, although there is a key, and not trusted. It was set aside as a sealed
	// one is.
	unsealed Trouble = "not sealed"
	// unreadable: the disk does not give it. It is left as it is.
	unreadable Trouble = "unreadable"
	// foreign: nothing of ours. It is left as it is.
	foreign Trouble = "foreign"
)

// Bad is something in a store that is no usable record.
type Bad struct {
	Trouble Trouble `json:"trouble"`
	// Name of it in the store, and where it was moved to, if it was.
	Name  string `json:"name"`
	Aside string `json:"aside,omitempty"`
	// UID of the pod, as far as the name tells; empty if it does not.
	UID types.UID `json:"uid,omitempty"`
	// Err says more. It never quotes the content.
	Err error `json:"-"`
}

// String names the thing and what is wrong with it.
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
