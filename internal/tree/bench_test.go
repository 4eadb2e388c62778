package tree_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podwright/podwright/internal/tree"
	"github.com/podwright/podwright/internal/tree/treetest"
)

// BenchmarkWide removes wide trees in turn by Remove and by os.RemoveAll, and reports the time of each and
// their ratio.
func BenchmarkWide(b *testing.B) {
	for _, shape := range []struct{ folders, files int }{{1, 100_000}, {1000, 100}, {20_000, 1}} {
		b.Run(fmt.Sprintf("folders=%d/files=%d", shape.folders, shape.files), func(b *testing.B) {
			dir := b.TempDir()
			var ours, theirs time.Duration
			for b.Loop() {
				for _, take := range []*time.Duration{&ours, &theirs} {
					b.StopTimer()
					v := wide(b, dir, shape.folders, shape.files)
					b.StartTimer()
					begin := time.Now()
					var err error
					if take == &ours {
						err = tree.RemovePath(b.Context(), v)
					} else {
						err = os.RemoveAll(v)
					}
					if err != nil {
						b.Fatal(err)
					}
					*take += time.Since(begin)
				}
			}
			n := float64(b.N)
			b.ReportMetric(ours.Seconds()*1000/n, "ms/Remove")
			b.ReportMetric(theirs.Seconds()*1000/n, "ms/RemoveAll")
			b.ReportMetric(ours.Seconds()/theirs.Seconds(), "Remove/RemoveAll")
		})
	}
}

// BenchmarkDeep removes and walks trees of growing depth: the time per level stays the same.
func BenchmarkDeep(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("levels=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			var walk, remove time.Duration
			for b.Loop() {
				b.StopTimer()
				treetest.Chain(b, dir, n, 1).Close()
				folder := open(b, dir)
				b.StartTimer()
				begin := time.Now()
				err := tree.Walker{Visit: func(tree.Entry) error { return nil }}.Walk(b.Context(), folder)
				walk += time.Since(begin)
				begin = time.Now()
				if err == nil {
					err = tree.RemovePath(b.Context(), filepath.Join(dir, "deep"))
				}
				if err != nil {
					b.Fatal(err)
				}
				remove += time.Since(begin)
			}
			levels := float64(b.N) * float64(n)
			b.ReportMetric(float64(walk.Nanoseconds())/levels, "ns/level-walked")
			b.ReportMetric(float64(remove.Nanoseconds())/levels, "ns/level-removed")
		})
	}
}

func wide(b *testing.B, dir string, folders, files int) string {
	b.Helper()
	v := filepath.Join(dir, "v")
	for i := range folders {
		sub := filepath.Join(v, fmt.Sprint(i))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			b.Fatal(err)
		}
		for f := range files {
			if err := os.WriteFile(filepath.Join(sub, fmt.Sprint(f)), nil, 0o600); err != nil {
				b.Fatal(err)
			}
		}
	}
	return v
}
