package memory

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTable: only amounts of memory count, also those that are 0.
func TestTable(t *testing.T) {
	proc := t.TempDir()
	if _, err := Table(proc); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a table: %v", err)
	}
	text := "MemTotal:        1000 kB\nInactive(file):   100 kB\nSwapTotal: 0 kB\nHugePages_Total:       4\nMemFree: many kB\nHuge: 36893488147419103232 kB\nbroken\n"
	if err := os.WriteFile(filepath.Join(proc, "meminfo"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Table(proc)
	want := map[string]uint64{"MemTotal": 1000 << 10, "Inactive(file)": 100 << 10, "SwapTotal": 0}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// TestAvailable: what is free, and files that nothing uses, but no more than there is.
func TestAvailable(t *testing.T) {
	for text, want := range map[string]uint64{
		"MemTotal: 10 kB\nMemFree: 3 kB\nInactive(file): 4 kB\n": 7 << 10, "MemTotal: 5 kB\nMemFree: 3 kB\nInactive(file): 4 kB\n": 5 << 10, "": 0,
	} {
		if got := Available(Parse(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestHugePages: every size that the kernel has counts, unless its count cannot be read.
func TestHugePages(t *testing.T) {
	sys := t.TempDir()
	if none := HugePages(sys); len(none) != 0 {
		t.Errorf("a kernel without huge pages: %v", none)
	}
	for folder, count := range map[string]string{
		"hugepages-2048kB": "8\n", "hugepages-1048576kB": "0\n", "hugepages-64kB": "many\n", "hugepages-0kB": "3\n",
		"hugepages-32kB": "9223372036854775807\n", "hugepages-16kB": "-1\n", "other": "3\n",
	} {
		dir := filepath.Join(sys, "kernel/mm/hugepages", folder)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "nr_hugepages"), []byte(count), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := HugePages(sys), (map[int64]int64{2 << 20: 16 << 20, 1 << 30: 0}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
