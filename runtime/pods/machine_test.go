package pods

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHugetlbIsFoundWhereItIsMounted: spec/runtime.md 13, on both versions of control groups.
func TestHugetlbIsFoundWhereItIsMounted(t *testing.T) {
	for layout, want := range map[string]bool{
		"v2: cpu io memory hugetlb pids": true,
		"v2: cpu io memory pids":         false,
		"v1: cpu,cpuacct memory hugetlb": true,
		"v1: cpu memory,hugetlb":         true,
		"v1: cpu memory unified":         false,
		"v1: ":                           false,
	} {
		folder := t.TempDir()
		names := strings.Fields(layout[4:])
		var err error
		if strings.HasPrefix(layout, "v2") {
			err = os.WriteFile(filepath.Join(folder, "cgroup.controllers"), []byte(layout[4:]+"\n"), 0o600)
			names = nil
		}
		for _, name := range names {
			if err == nil {
				err = os.Mkdir(filepath.Join(folder, name), 0o700)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := hasHugetlb(folder); got != want {
			t.Errorf("%s: %v", layout, got)
		}
	}
}
