package containerlog

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// benchLog writes a log of about 10 MiB in lines of 100 bytes.
func benchLog(b *testing.B) (root string, size int64) {
	b.Helper()
	root = b.TempDir()
	folder := filepath.Join(root, place.Pod, place.Container)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		b.Fatal(err)
	}
	var text strings.Builder
	for i := range 75_000 {
		fmt.Fprintf(&text, "2026-01-02T03:04:05.%09dZ stdout F %0100d\n", i, i)
	}
	if err := os.WriteFile(filepath.Join(folder, place.File), []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	return root, int64(text.Len())
}

// BenchmarkAll shows a whole log of 10 MiB.
func BenchmarkAll(b *testing.B) {
	root, size := benchLog(b)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if err := New(root, nil).Copy(b.Context(), place, Options{}, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTail shows the last ten lines of it.
func BenchmarkTail(b *testing.B) {
	root, _ := benchLog(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := New(root, nil).Copy(b.Context(), place, Options{Tail: number(10)}, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
