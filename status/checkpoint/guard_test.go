package checkpoint

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestPanicOfTheStoreHidesNoFailure: IN6, CK8. A store panics at one record and fails at another, without saying which. Only
// what it took counts as written.
func TestPanicOfTheStoreHidesNoFailure(t *testing.T) {
	err := each("Write", []types.UID{"a", "b", "c"}, func(uid types.UID) types.UID { return uid }, func(uids []types.UID) error {
		if slices.Contains(uids, "a") {
			panic("no such column")
		}
		if slices.Contains(uids, "b") {
			return errors.New("disk")
		}
		return nil
	})
	if got := slices.Sorted(maps.Keys(byPod(err))); !slices.Equal(got, []types.UID{"a", "b"}) {
		t.Errorf("failed: %v", got)
	}
}

// TestFailureOfAnUnnamedRecord: CK8. A failure that names no record is one of all records of its call, and of no other call.
func TestFailureOfAnUnnamedRecord(t *testing.T) {
	bad := map[types.UID]error{}
	noteFailed(bad, &RecordError{UID: "a", Err: errors.New("locked")}, []types.UID{"a", "b"})
	noteFailed(bad, errors.New("disk"), []types.UID{"c", "d"})
	noteFailed(bad, nil, []types.UID{"e"})
	if got := slices.Sorted(maps.Keys(bad)); !slices.Equal(got, []types.UID{"a", "c", "d"}) {
		t.Errorf("failed: %v", got)
	}
}
