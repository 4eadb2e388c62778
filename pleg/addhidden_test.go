package pleg

import (
	"fmt"
	"testing"
	"time"

	"github.com/podwright/podwright/runtime"
)

// shownBy is what AddHidden adds to pods, as text.
func shownBy(b *bench, listed ...*runtime.Pod) (out string) {
	for _, p := range b.AddHidden(listed) {
		out += string(p.UID) + ":"
		for _, s := range p.Sandboxes {
			out += fmt.Sprintf(" %s=%v", s.ID, s.State)
		}
		for _, c := range p.Containers {
			out += fmt.Sprintf(" %s(%s)=%v", c.ID.ID, c.Name, c.State)
		}
		out += "\n"
	}
	return out
}

// R7: what runs and a list lacks is added to the list, to pods that the list has and as pods; what has ended is not.
func TestAddHidden(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "c", "d"); b.pod("q", "c"); b.pod("r", "c") }, func(b *bench) {
		b.container("p", "d", sExited)
		b.container("r", "c", sExited)
		b.sandbox("r", 0, sNotReady, "")
		pass(2 * time.Second)
		b.hiding(func(string) bool { return true })
		pass(10 * time.Second)
		listed := &runtime.Pod{UID: "p", Sandboxes: []*runtime.Sandbox{{ID: "p/s0", State: runtime.Exited}}}
		if got, want := shownBy(b, listed), "p: p/s0=exited p/c(c)=running\nq: q/s0=running q/c(c)=running\n"; got != want {
			b.t.Errorf("%s, want %s", got, want)
		}
		if got, err := b.ListRunning(b.t.Context()); err != nil || len(got) != 2 {
			b.t.Errorf("%v, %v", got, err)
		}
	})
}

// R15: what was recalled runs as far as it was read, or counts as running while it could not be, until it is known to be gone.
// Its sandbox may be hidden, so the pod has no status.
func TestAddHiddenOfWhatWasRecalled(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) {
		b.pod("p", "c", "d")
		b.container("p", "d", sExited)
		b.Recall("p", "p/c", "p/d")
		b.Recall("gone", "gone/c")
		b.hiding(func(string) bool { return true })
		b.fail(failing("ContainerStatus", "", runtime.ErrUnavailable))
	}, func(b *bench) {
		if got, want := shownBy(b), "gone: gone/c()=running\np: p/c()=running p/d()=running\n"; got != want {
			b.t.Errorf("unread: %s, want %s", got, want)
		}
		b.fail(nil)
		pass(2 * time.Second)
		if got, want := shownBy(b), "p: p/c(c)=running\n"; got != want {
			b.t.Errorf("read: %s, want %s", got, want)
		}
		if got, err := b.ListRunning(b.t.Context()); err != nil || len(got) != 0 {
			b.t.Errorf("ListRunning has what has no status: %v, %v", got, err)
		}
		b.container("p", "c", sExited)
		pass(10 * time.Second)
		if got := shownBy(b); got != "" {
			b.t.Errorf("ended: %s", got)
		}
	})
}
