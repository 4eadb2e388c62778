package containerlog

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzLog: whatever is in the files, reading ends, shows no more than is there, and the tail is an
// end of the whole (spec/runtime.md 27.6).
func FuzzLog(f *testing.F) {
	const stamp = "2026-01-02T03:04:05.000000006Z "
	f.Add("", stamp+"stdout F one\n"+stamp+"stdout F two\n", int64(1))
	f.Add(stamp+"stdout P ha\n", stamp+"stdout F lf\n", int64(1))
	f.Add(stamp+"stdout F x\n\n\nstdout\n", "\x00 \xff "+stamp, int64(0))
	f.Add(stamp+"stdout F "+strings.Repeat("x", 200<<10)+"\n", stamp+"stdout F", int64(7))
	f.Fuzz(func(t *testing.T, old, current string, n int64) {
		root := t.TempDir()
		folder := filepath.Join(root, place.Pod, place.Container)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{"0.log.20260101-000000": old, "0.log": current} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var all, tail bytes.Buffer
		options := Options{Stream: Stdout}
		if err := New(root, nil).Copy(t.Context(), place, options, &all); err != nil {
			t.Fatal(err)
		}
		if all.Len() > len(old)+len(current)+2 {
			t.Errorf("%d bytes shown of %d", all.Len(), len(old)+len(current))
		}
		n = max(0, n%1000)
		options.Tail = &n
		if err := New(root, nil).Copy(t.Context(), place, options, &tail); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasSuffix(all.Bytes(), tail.Bytes()) {
			t.Errorf("the last %d lines are %q, all are %q", n, tail.Bytes(), all.Bytes())
		}
		if lines := int64(strings.Count(tail.String(), "\n")); lines > n {
			t.Errorf("%d lines instead of the last %d: %q", lines, n, tail.Bytes())
		}
	})
}
