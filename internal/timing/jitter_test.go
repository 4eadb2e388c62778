package timing

import "testing"

// TestJitterSourcesDiffer: two nodes that start together must not draw the same delays.
func TestJitterSourcesDiffer(t *testing.T) {
	one, other := Jitter(), Jitter()
	equal := 0
	for range 100 {
		a, b := one(), other()
		if a < 0 || a >= 1 || b < 0 || b >= 1 {
			t.Fatalf("%v and %v, want numbers in [0, 1)", a, b)
		}
		if a == b {
			equal++
		}
	}
	if equal > 1 {
		t.Errorf("%d of 100 numbers are equal", equal)
	}
}
