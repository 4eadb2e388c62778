package checkpointtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/status/checkpoint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A write that was not followed by a sync is lost with the power, one that was is
// not.
func Example() {
	disk := &checkpointtest.Disk{}
	full := errors.New("no space left")
	points := &checkpointtest.Points{FS: disk, Before: func(op checkpointtest.Op) error {
		if op.Kind == "write" && op.Name == "second" {
			return full
		}
		return nil
	}}
	var folder checkpoint.FS = points
	fmt.Println(folder.Write("first", []byte("1")), folder.Sync([]string{"first"}), folder.SyncDir())
	fmt.Println(folder.Write("second", []byte("2")))
	fmt.Println(folder.Write("third", []byte("3")))
	fmt.Println(disk.Names(), disk.LosePower(nil).Names())
	// Output:
	// <nil> <nil> <nil>
	// no space left
	// <nil>
	// [first third] [first]
}

// What is in memory outlives a keeper, but not a deletion.
func ExampleMemory() {
	var store checkpoint.Store = &checkpointtest.Memory{}
	ctx := context.Background()
	fmt.Println(store.Write(ctx, []*checkpoint.Record{{UID: "a"}, {UID: "b"}}), store.Delete(ctx, []types.UID{"b", "unknown"}))
	loaded, err := store.Load(ctx)
	fmt.Println(len(loaded.Records), loaded.Records[0].UID, err)
	// Output:
	// <nil> <nil>
	// 1 a <nil>
}
