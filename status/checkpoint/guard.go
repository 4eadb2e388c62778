package checkpoint

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"

	outside "github.com/podwright/podwright/internal/foreign"
)

// guarded makes a call of the store, which may be the program's own: a panic is a failure (IN6).
func guarded(method string, call func() error) error {
	var unlisted *outside.Calls // nil: a store that fails is a problem of the keeper
	return unlisted.Contain(outside.Call{Name: "Checkpoints.Store." + method}, call)
}

// each calls the store for all items and, if that panics, for each by itself: a pod that the store
// panics at keeps no other pod's record from the disk.
func each[T any](method string, items []T, uid func(item T) types.UID, call func(items []T) error) error {
	err := guarded(method, func() error { return call(items) })
	switch {
	case !errors.As(err, new(*outside.PanicError)):
		return err
	case len(items) == 1:
		return &RecordError{UID: uid(items[0]), Err: err}
	}
	problems := make([]error, len(items))
	for i := range items {
		problems[i] = each(method, items[i:i+1], uid, call)
		if problems[i] != nil && len(byPod(problems[i])) == 0 { // it says nothing of the others
			problems[i] = &RecordError{UID: uid(items[i]), Err: problems[i]}
		}
	}
	return errors.Join(problems...)
}

// stackOf returns what the log says of a panic.
func stackOf(err error) (keysAndValues []any) {
	var panicked *outside.PanicError
	if errors.As(err, &panicked) {
		return []any{"stack", panicked.Trace()}
	}
	return nil
}
