package pullrecords_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podwright/podwright/runtime/pods/internal/pullrecords"
)

// spec/runtime.md 9.9: kills during writes do not add up, for images that are not pulled again either.
func TestHalfWrittenRecordsGo(t *testing.T) {
	b := newBench(t, pullrecords.Policy{})
	a := from(t, "a", "1", "pw")
	b.pull(&a)
	dir := b.store.(pullrecords.FileStore).Dir
	for _, folder := range []string{"pulled", "pulling"} {
		if err := os.WriteFile(filepath.Join(dir, folder, "other.json.tmp"), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.restart(pullrecords.Policy{})
	other := from(t, "b", "2", "pw2")
	b.pull(&other)
	left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(left) != 1 || filepath.Ext(left[0]) != ".json" {
		t.Errorf("left: %q, %v", left, err)
	}
}
