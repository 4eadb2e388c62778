package pods_test

import (
	"strings"
	"testing"
	"time"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// All problems of the options are reported at once.
func TestBadOptions(t *testing.T) {
	f := fake.New(fake.Options{})
	_, err := pods.New(f, f, pods.Options{
		LogDir: "logs", MemoryCapacity: -1,
		CrashLoopBackOff: pods.BackOffPolicy{Initial: -time.Second, Factor: 0.5},
		ImageBackOff:     pods.BackOffPolicy{Max: -1},
		CrashLoopByExit:  pods.CrashLoopByExit{Success: pods.BackOffPolicy{Reset: -1}},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{
		"RootDir is required", `LogDir "logs"`, "MemoryCapacity", "CrashLoopBackOff.Initial", "CrashLoopBackOff.Factor", "ImageBackOff.Max",
		"CrashLoopByExit.Success.Reset",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not told: %v", part, err)
		}
	}
	if _, err := pods.New(f, f, pods.Options{RootDir: "relative"}); err == nil {
		t.Error("a relative RootDir is accepted")
	}
}
