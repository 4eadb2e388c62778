package patience

import (
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	defer func(f float64) { factor = f }(factor)
	for text, want := range map[string]time.Duration{"": 2 * time.Second, "1": 2 * time.Second, "2.5": 5 * time.Second, "8": 16 * time.Second} {
		factor = parse(text)
		if got := Of(2 * time.Second); got != want {
			t.Errorf("factor %q: %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"0", "0.5", "-1", "NaN", "1e9", "long"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("factor %q is accepted", text)
				}
			}()
			parse(text)
		}()
	}
}
