package poddir

import (
	"slices"
	"testing"
	"time"
)

// TestNewestMessagesStay is 12.5: by the kernel's time, not by one that a container can set.
func TestNewestMessagesStay(t *testing.T) {
	at := func(name string, second int64) message { return message{name, time.Unix(second, 0)} }
	files := []message{at("b", 2), at("d", 4), at("a", 1), at("c", 3)}
	for keep, want := range map[int][]string{0: {"a", "b", "c", "d"}, 1: {"a", "b", "c"}, 3: {"a"}, 4: nil, 9: nil} {
		got := oldest(slices.Clone(files), keep)
		if !slices.Equal(got, want) {
			t.Errorf("12.5: to keep %d, %q go, want %q", keep, got, want)
		}
	}
}
