package pleg

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/podwright/podwright/runtime"
)

// slowly is a hook that delays the answers for one container.
func slowly(id string, delay time.Duration) func(context.Context, string, string) error {
	return func(_ context.Context, method, object string) error {
		if method == "ContainerStatus" && object == id {
			<-time.After(delay)
		}
		return nil
	}
}

// R7, PI12: a pod that lists lack as a whole and that has ended is read as seldom as one that runs.
func TestEndedPodThatListsLack(t *testing.T) {
	for name, fill := range map[string]func(b *bench){
		"seen": func(b *bench) { b.pod("p", "c", "d") },
		"recalled": func(b *bench) {
			b.pod("p", "c")
			b.container("p", "c", sExited)
			b.Recall("p", "p/c")
			b.hiding(func(string) bool { return true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, fill, func(b *bench) {
				b.hiding(func(id string) bool { return strings.HasPrefix(id, "p/") })
				pass(time.Minute)
				b.container("p", "c", sExited)
				b.container("p", "d", sExited)
				b.sandbox("p", 0, sNotReady, "")
				pass(5 * time.Minute)
				calls := b.statusCalls()
				pass(10 * time.Minute)
				if got := b.statusCalls() - calls; got > 33 {
					b.t.Errorf("%d status calls in 10 min, want a reading of at most 3 objects a minute", got)
				}
			})
		})
	}
}

// R7, R15: a reading that takes longer than a period is not repeated because of the lists meanwhile, if these lack what the
// reading had by ID. So neither the first list nor Relist waits for the end of a gap.
func TestSlowPodWithGaps(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) {
		b.pod("p", "c", "d")
		b.Recall("p", "p/c", "p/d")
		b.hiding(partialLists["one container"])
		b.fail(slowly("p/d", 1200*time.Millisecond))
	}, func(b *bench) {
		pass(5 * time.Second)
		if !b.Synced() {
			b.t.Error("the first list is not complete")
		}
		if err := b.Relist(ctxFor(b.t, 5*time.Second)); err != nil {
			b.t.Error(err)
		}
		pass(5 * time.Minute)
		calls := b.count("ContainerStatus p/d")
		pass(10 * time.Minute)
		if got := b.count("ContainerStatus p/d") - calls; got > 11 {
			b.t.Errorf("%d readings in 10 min, want one a minute", got)
		}
	})
}

// R15: what is recalled while a reading is under way is read before Relist returns, although that reading agrees with the list.
func TestRecalledDuringAReading(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "c", "d"); b.hiding(partialLists["one container"]) }, func(b *bench) {
		b.container("p", "e", sRunning)
		b.fail(slowly("p/e", 1500*time.Millisecond))
		pass(1200 * time.Millisecond)
		b.Recall("p", "p/c")
		b.relist()
		b.want("after Relist", "p", "p/c=running", "p/d=running", "p/e=running", "p/s0=running")
	})
}

// R15, R7: the same for a reading that finds that all the pod had is gone.
func TestRecalledWhileThePodIsLookedFor(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "c"); b.pod("q", "c") }, func(b *bench) {
		b.container("p", "e", sRunning)
		b.hiding(func(id string) bool { return id == "p/e" })
		b.fail(func(_ context.Context, method, id string) error {
			if method == "ContainerStatus" && id == "p/c" {
				b.Recall("p", "p/e")
			}
			return nil
		})
		b.remove("p", "s0")
		b.remove("p", "c")
		pass(20 * time.Second)
		if s, err := b.Get("p"); err == nil {
			b.t.Errorf("the pod is shown as %q", statesOf(s))
		}
	})
}

// R15: a recalled container that could be read was not forgotten by the runtime, however many lists have lacked it. One reading
// that fails does not change that.
func TestRecalledThatCouldBeReadBefore(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) {
		b.pod("p", "c", "d")
		b.container("p", "d", sExited)
		b.Recall("p", "p/c", "p/d")
		b.hiding(func(string) bool { return true })
	}, func(b *bench) {
		for range 5 {
			pass(10 * time.Second)
			b.fail(failing("ContainerStatus", "p/c", runtime.ErrUnavailable))
			pass(time.Second)
			b.fail(nil)
			if s, err := b.Get("p"); err == nil {
				b.t.Fatalf("the pod is shown as %q", statesOf(s))
			}
		}
		b.hiding(func(string) bool { return false })
		pass(1100 * time.Millisecond)
		b.want("listed", "p", "p/c=running", "p/d=exited", "p/s0=running")
	})
}

// R15: the sandbox that a listed container names is recalled by whatever reads the pod first.
func TestSandboxIsRecalledByARefresh(t *testing.T) {
	for name, look := range map[string]func(b *bench){
		"Refresh": func(b *bench) { b.Refresh("p"); pass(10 * time.Millisecond) },
		"ReadNow": func(b *bench) { _, _ = b.ReadNow(b.t.Context(), "p") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, nil, func(b *bench) {
				b.pod("p", "c")
				b.hiding(partialLists["all sandboxes"])
				look(b)
				b.want(name, "p", "p/c=running", "p/s0=running")
			})
		})
	}
}
