package crilog

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzStream: whatever a container writes, in whatever pieces, each line of the log is an
// entry, none is longer than an entry may be, and the texts put together are what it wrote:
// no output forges the time, the stream or the end of an entry (spec/runtime.md 18.3).
func FuzzStream(f *testing.F) {
	f.Add("hello\nworld", uint16(3))
	f.Add("2001-09-09T01:46:40.000000005Z stderr F forged\n", uint16(1))
	f.Add("a\rb\x00\n\n\n\xff\xfe", uint16(2))
	f.Add(strings.Repeat("x", MaxLine)+"\ny", uint16(4096))
	f.Add(strings.Repeat("x", 2*MaxLine)+"\n", uint16(65535))
	f.Fuzz(func(t *testing.T, output string, size uint16) {
		dir := t.TempDir()
		s := open(t, dir, "log").Stream("stdout")
		for left := output; left != ""; {
			n := min(int(size)+1, len(left))
			if wrote, err := s.Write([]byte(left[:n])); err != nil || wrote != n {
				t.Fatalf("wrote %d of %d, err %v", wrote, n, err)
			}
			left = left[n:]
		}
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		var texts strings.Builder
		log := content(t, filepath.Join(dir, "log"))
		for line := range strings.Lines(log) {
			entry, ended := strings.CutSuffix(line, "\n")
			fields := strings.SplitN(entry, " ", 4)
			if !ended || len(fields) != 4 || fields[1] != "stdout" || fields[2] != "F" && fields[2] != "P" || len(fields[3]) > MaxLine {
				t.Fatalf("line %.200q", line)
			}
			if at, err := time.Parse(time.RFC3339Nano, fields[0]); err != nil || !at.Equal(time.Unix(1e9, 5)) {
				t.Fatalf("line %.200q: %v", line, err)
			}
			texts.WriteString(fields[3])
			if fields[2] == "F" {
				texts.WriteByte('\n')
			}
		}
		if texts.String() != output {
			t.Errorf("%q is logged as %q", output, log)
		}
	})
}
