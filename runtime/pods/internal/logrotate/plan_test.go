package logrotate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/runtime/pods/internal/logrotate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spec/runtime.md 18.4: what goes, what is compressed and what stays.
func TestMakePlan(t *testing.T) {
	const a, b, c, d = "0.log.20260101-000000", "0.log.20260101-000001", "0.log.20260102-000000", "0.log.20260103-000000"
	for _, tc := range []struct {
		name             string
		names            string
		max              int
		remove, compress string
	}{
		{"nothing rotated yet", "0.log", 5, "", ""},
		{"18.4: the rotated one is compressed", "0.log " + a, 5, "", a},
		{"18.4: compressed ones stay", "0.log " + a + ".gz " + b, 5, "", b},
		{"18.4: unfinished ones go", "0.log " + a + ".tmp " + a, 5, a + ".tmp", a},
		{"18.4: an original that has been compressed goes", "0.log " + a + " " + a + ".gz", 5, a, ""},
		{"18.4: at most files-2 rotated remain", "0.log " + strings.Join([]string{d, a + ".gz", c + ".gz", b + ".gz"}, " "), 5, a + ".gz", d},
		{"18.4: two files keep no rotated one", "0.log " + a + ".gz " + b, 2, a + ".gz " + b, ""},
		{"both forms of one that goes", a + " " + a + ".gz " + b, 3, a + " " + a + ".gz", b},
		{"files of others are left alone", "0.log 0.log.old 0.log.20260101 0.log.20269999-000000 1.log.20260101-000000 0.log.99991231-235959 x.tmp 0.log.x.tmp", 2, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			names := strings.Fields(tc.names)
			slices.Reverse(names) // the order of a folder means nothing
			plan := logrotate.MakePlan("0.log", names, tc.max)
			if r, c := strings.Join(plan.Remove, " "), strings.Join(plan.Compress, " "); r != tc.remove || c != tc.compress {
				t.Errorf("removes %q, compresses %q\nwant %q, %q", r, c, tc.remove, tc.compress)
			}
		})
	}
}

// spec/runtime.md 18.4: rotated files sort in the order they were written, whatever
// the clock does.
func TestRotatedNamesSortInTheOrderOfWriting(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 999, time.FixedZone("", 3600))
	for names, want := range map[string]string{
		"0.log":                               "0.log.20260102-020405",
		"0.log 0.log.20250101-000000.gz":      "0.log.20260102-020405",
		"0.log.20260102-020405":               "0.log.20260102-020406",
		"0.log.20271231-235959.gz":            "0.log.20280101-000000",
		"0.log.20270101-000000.tmp":           "0.log.20270101-000001",
		"1.log.20270101-000000":               "0.log.20260102-020405",
		"0.log.99991231-235959 0.log.garbage": "0.log.20260102-020405",
	} {
		if got := logrotate.Name("0.log", strings.Fields(names), now); got != want {
			t.Errorf("with %q: %s, want %s", names, got, want)
		}
	}
}

// Whatever names a folder has, only rotated files of the log are touched, nothing is
// both removed and compressed, and what remains fits.
func TestMakePlanRandom(t *testing.T) {
	name := rapid.Custom(func(t *rapid.T) string {
		base := rapid.SampledFrom([]string{"0.log", "1.log", "..", "a/b", ""}).Draw(t, "base")
		stamp := rapid.SampledFrom([]string{"", ".20260101-000000", ".20260102-000000", ".20260103-000000", ".x", "."}).Draw(t, "stamp")
		return base + stamp + rapid.SampledFrom([]string{"", ".gz", ".tmp", ".gz.tmp"}).Draw(t, "suffix")
	})
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(name, rapid.ID).Draw(t, "names")
		limit := rapid.IntRange(2, 5).Draw(t, "max")
		plan := logrotate.MakePlan("0.log", names, limit)
		left := slices.Clone(names)
		for _, n := range slices.Concat(plan.Remove, plan.Compress) {
			if !strings.HasPrefix(n, "0.log.2026") || !slices.Contains(names, n) {
				t.Fatalf("%q is touched", n)
			}
			i := slices.Index(left, n)
			if i < 0 {
				t.Fatalf("%q is touched twice", n)
			}
			left = slices.Delete(left, i, i+1)
		}
		for _, n := range plan.Compress {
			left = append(left, n+".gz")
		}
		if again := logrotate.MakePlan("0.log", left, limit); len(again.Remove)+len(again.Compress) > 0 {
			t.Fatalf("a second plan has more to do: %+v", again)
		}
		rotated := 0
		for _, n := range left {
			if strings.HasPrefix(n, "0.log.2026") && !strings.HasSuffix(n, ".gz.tmp") {
				rotated++
			}
		}
		if rotated > limit-2 {
			t.Fatalf("%d rotated files remain: %q", rotated, left)
		}
	})
}

func ExampleMakePlan() {
	plan := logrotate.MakePlan("0.log", []string{"0.log", "0.log.20260101-000000.gz", "0.log.20260102-000000", "0.log.20260103-000000.tmp"}, 3)
	fmt.Println("remove  ", plan.Remove)
	fmt.Println("compress", plan.Compress)
	// Output:
	// remove   [0.log.20260103-000000.tmp 0.log.20260101-000000.gz]
	// compress [0.log.20260102-000000]
}

// What was written right before the log itself is in the latest rotated file.
func TestNewestIsTheLatestRotatedFile(t *testing.T) {
	for names, want := range map[string]string{
		"0.log":                         "",
		"0.log 1.log.20260101-000000":   "",
		"0.log.20260101-000000 0.log.x": "0.log.20260101-000000",
		"0.log.20260103-000000 0.log.20260101-000000 0.log.20260102-000000.gz": "0.log.20260103-000000",
		"0.log.20260101-000000 0.log.20260102-000000.gz":                       "",
		"0.log.20260102-000000.tmp 0.log.20260101-000000":                      "0.log.20260101-000000",
	} {
		if got, ok := logrotate.Newest("0.log", strings.Fields(names)); ok != (want != "") || ok && got != want {
			t.Errorf("of %q: %q, %v", names, got, ok)
		}
	}
}
