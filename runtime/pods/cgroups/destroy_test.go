package cgroups_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/internal/tree/treetest"
	"github.com/podwright/podwright/runtime/pods/cgroups"
)

// nested makes a pod's cgroup with n others nested in one another below it, and some beside them.
func nested(t testing.TB, n int) (h *cgroups.Hierarchy, pod string) {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("cpuset cpu io memory pids rdma\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := cgroups.New(cgroups.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	pod = filepath.Join(root, "kubepods/besteffort/podu")
	for _, beside := range []string{"a", "a/b", "z"} {
		if err := os.MkdirAll(filepath.Join(pod, beside), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	treetest.Chain(t, pod, n, 0).Close()
	return h, pod
}

// TestDestroyRemovesDeepCgroups (IN19): a pod that nests cgroups thousands deep is removed like any
// other, and what is left of one has a short error.
func TestDestroyRemovesDeepCgroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, pod := nested(t, 3000)
		if err := h.Destroy(t.Context(), "u"); err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(pod), "*")); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}

		h, pod = nested(t, 3)
		stuck := filepath.Join(pod, "deep/deep/deep/a file")
		if err := os.WriteFile(stuck, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		held := filepath.Join(pod, "a/cgroup.procs")
		if err := os.WriteFile(held, []byte("1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := h.Destroy(t.Context(), "u")
		if err == nil || strings.Count(err.Error(), "destroy cgroup") != 2 || !strings.Contains(err.Error(), `"deep": directory not empty`) || !strings.Contains(err.Error(), `"a": it holds process "1", which is not killed`) {
			t.Errorf("%v: want the cgroup that cannot be removed and the process, and no consequences", err)
		}
		if _, err := os.Stat(filepath.Join(pod, "z")); !os.IsNotExist(err) {
			t.Errorf("what could be removed is there: %v", err)
		}
		if err := os.Remove(stuck); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(held); err != nil {
			t.Fatal(err)
		}
		if err := h.Destroy(t.Context(), "u"); err != nil {
			t.Error(err)
		}
	})
}

// BenchmarkDestroyDeep: the time per level stays the same, however deep they are.
func BenchmarkDestroyDeep(b *testing.B) {
	for _, n := range []int{500, 2000, 8000} {
		b.Run(fmt.Sprintf("levels=%d", n), func(b *testing.B) {
			var took time.Duration
			for b.Loop() {
				b.StopTimer()
				h, _ := nested(b, n)
				b.StartTimer()
				begin := time.Now()
				if err := h.Destroy(b.Context(), "u"); err != nil {
					b.Fatal(err)
				}
				took += time.Since(begin)
			}
			b.ReportMetric(float64(took.Microseconds())/float64(b.N)/float64(n), "µs/level")
		})
	}
}
