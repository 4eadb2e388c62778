package checkpoint

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// faultError says that the store fails to take or return records.
type faultError struct {
	// Pending is how many pods have changes that are not on the disk.
	Pending int
	// Since is when the trouble began.
	Since time.Time
	// Err is the newest failure.
	Err error
}

// Error says what is wrong and since when.
func (e *faultError) Error() string {
	return fmt.Sprintf("checkpoints fail since %s, changes of %d pods wait: %v", e.Since.UTC().Format(time.RFC3339), e.Pending, e.Err)
}

// Unwrap returns Err.
func (e *faultError) Unwrap() error { return e.Err }

// ReadOnly reports whether the store refuses the pod's record because a record of a newer version
// is in its place.
func (k *Keeper) ReadOnly(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entries[uid]
	return e != nil && e.readOnly
}

// Problem returns what is wrong with the record of one pod, or nil.
func (k *Keeper) Problem(uid types.UID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if b, ok := k.bad[fileName(uid)]; ok {
		return fmt.Errorf("checkpoint %s", b)
	}
	if e := k.dirty[uid]; e != nil && e.err != nil {
		return e.err
	}
	return nil
}

// Dismiss forgets unusable records that were set aside, unless keep returns true for their pod
// (because a source still wants it) or they still lie in the way.
func (k *Keeper) Dismiss(keep func(uid types.UID) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.bad, func(_ string, b Bad) bool { return b.Aside != "" && (b.UID == "" || !keep(b.UID)) })
}

// figures are the numbers a keeper exports.
type figures struct {
	// Records in memory; Pending of them have changes that are not on the disk.
	Records, Pending int
	// Failures is how many batches failed since the start.
	Failures int64
}

// stats returns the current figures.
func (k *Keeper) stats() figures {
	k.mu.Lock()
	defer k.mu.Unlock()
	return figures{Records: len(k.entries), Pending: len(k.dirty), Failures: k.fault.count}
}
