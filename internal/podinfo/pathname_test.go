package podinfo

import (
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	for _, bad := range []string{"", ".", "..", "a/b", "/", "a\x00", "a\nb", "\x7f", strings.Repeat("x", 256)} {
		if CheckName("name", bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for _, good := range []string{"a", "...", "a.b", "kube-system", strings.Repeat("x", 255)} {
		if err := CheckName("name", good); err != nil {
			t.Error(err)
		}
	}
}
