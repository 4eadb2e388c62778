package pods

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzLogTail: whatever a log holds, a message has at most the last lines of it, and is text
// (spec/runtime.md 20).
func FuzzLogTail(f *testing.F) {
	f.Add("2026-01-02T03:04:05.000000006Z stdout F hello\n2026-01-02T03:04:05.000000007Z stderr P half")
	f.Add("cut off at the front\n\n x y z\n2026-01-02T03:04:05Z stdout P:x a\n2026-01-02T03:04:05Z stderr F b\n")
	f.Add(strings.Repeat("2026-01-02T03:04:05Z stdout F \xff\n", 100))
	f.Fuzz(func(t *testing.T, log string) {
		text := logTail(log)
		if len(text) > maxLogMessage || strings.Count(text, "\n") > maxLogLines+strings.Count(log, "\r") {
			t.Errorf("%d bytes, %d lines", len(text), strings.Count(text, "\n"))
		}
		if !utf8.ValidString(text) {
			t.Errorf("%q is no text", text)
		}
		// Of several lines, parts of one (tag P) are put together: only a log of one line has all of its message in it.
		message := strings.TrimSuffix(text, "\n")
		if alone := !strings.Contains(strings.TrimSuffix(log, "\n"), "\n"); alone && utf8.ValidString(log) && !strings.Contains(log, message) {
			t.Errorf("%q is not in the log", message)
		}
	})
}
