package containerlog

import (
	"strings"
	"testing"
	"time"
)

func TestParseEntry(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	const stamp = "2026-01-02T03:04:05.000000006Z"
	for _, tc := range []struct {
		raw  string
		want header
		text string
		ok   bool
	}{
		{stamp + " stdout F hello world", header{at, 0, true}, "hello world", true},
		{stamp + " stderr P half", header{at, 1, false}, "half", true},
		{stamp + " stdout F:x:y tags", header{at, 0, true}, "tags", true},
		{stamp + " stdout P:F x", header{at, 0, false}, "x", true},
		{stamp + " stdout F ", header{at, 0, true}, "", true},
		{stamp + " stdout F", header{at, 0, true}, "", true},
		{stamp + " stdout F  two blanks", header{at, 0, true}, " two blanks", true},
		{"2026-01-02T05:04:05.000000006+02:00 stdout F x", header{at, 0, true}, "x", true},
		{stamp + " stdin F x", header{}, "", false},
		{stamp + " stdout X x", header{}, "", false},
		{"yesterday stdout F x", header{}, "", false},
		{`{"log":"docker"}`, header{}, "", false},
		{"", header{}, "", false},
		{strings.Repeat("9", 1000) + " stdout F x", header{}, "", false},
	} {
		h, text, ok := parse([]byte(tc.raw))
		if ok != tc.ok || ok && (!h.at.Equal(tc.want.at) || h.stream != tc.want.stream || h.whole != tc.want.whole || string(text) != tc.text) {
			t.Errorf("%.80q: %v %q %v, want %v %q %v", tc.raw, h, text, ok, tc.want, tc.text, tc.ok)
		}
	}
}
