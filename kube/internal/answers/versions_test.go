package answers_test

import (
	"testing"

	"github.com/podwright/podwright/kube/internal/answers"
)

// TestOlder: versions are numbers of any length; what is none cannot be compared.
func TestOlder(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"9", "10", true},
		{"10", "9", false},
		{"10", "10", false},
		{"99999999999999999999", "100000000000000000000", true},
		{"", "1", true},
		{"1", "later", true},
	} {
		if got := answers.Older(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %t", c.a, c.b, got)
		}
	}
}
