//go:build linux

package process

import (
	"os"
	"path/filepath"
	"testing"
)

// A container whose record of its end is damaged has ended once, not at each start of an agent.
func TestDamagedExitRecordKeepsItsTime(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		root := filepath.Join(t.TempDir(), "root")
		r := openRuntime(t, root, supervisor)
		id := runContainer(t, r, shell("exit 3"))
		waitExit(t, r, id)
		must(t, r.Close(t.Context()))
		must(t, os.WriteFile(r.path(containersDir, id, exitFile), []byte("garbage"), 0o600))
		var ends []int64
		for range 2 {
			r = openRuntime(t, root, supervisor)
			s := status(t, r, id)
			if s.GetExitCode() != codeUnknown || s.GetReason() != reasonUnknown {
				t.Errorf("exit code %d (%s), want unknown", s.GetExitCode(), s.GetReason())
			}
			ends = append(ends, s.GetFinishedAt())
			must(t, r.Close(t.Context()))
		}
		if ends[0] != ends[1] {
			t.Errorf("it ended at %d, and again at %d", ends[0], ends[1])
		}
		openRuntime(t, root, supervisor) // which removes it at the end
	})
}
