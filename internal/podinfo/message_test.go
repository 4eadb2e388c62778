package podinfo_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/podwright/podwright/internal/podinfo"
)

// TestMessageIsBounded is spec/runtime.md 22.4.
func TestMessageIsBounded(t *testing.T) {
	whole := strings.Repeat("x", 1024)
	if got := podinfo.Message(whole); got != whole {
		t.Errorf("1 KiB was cut to %d bytes", len(got))
	}
	for _, middle := range []string{strings.Repeat("x", 1<<20), strings.Repeat("€", 1000), strings.Repeat("x€", 1000)} {
		got := podinfo.Message("cannot pull " + middle + ": not found")
		if len(got) > 1024 || len(got) < 1000 || !strings.HasPrefix(got, "cannot pull ") || !strings.HasSuffix(got, ": not found") || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %.40q...", len(got), got)
		}
	}
}
