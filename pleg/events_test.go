package pleg

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// Section 5, E1: the table, row by row.
func TestEventsFollowTheTable(t *testing.T) {
	states := []objectState{running, exited, unknown, gone}
	for from, want := range map[objectState][4]Kind{
		gone:    {Started, Died, changed, 0},
		running: {0, Died, changed, Died | Removed},
		exited:  {Started, 0, changed, Removed},
		unknown: {Started, Died, 0, Died | Removed},
	} {
		for i, to := range states {
			if got := derive(from, to); got != want[i] {
				t.Errorf("derive(%d, %d) = %v, want %v", from, to, got, want[i])
			}
		}
	}
}

// S3, S4: created and unknown are one state, what the runtime invents too.
func TestCreatedAndUnknownAreOneState(t *testing.T) {
	for from, want := range map[runtime.State]objectState{
		runtime.Created: unknown, runtime.Unknown: unknown, runtime.State(99): unknown,
		runtime.Running: running, runtime.Exited: exited,
	} {
		if got := objectStateOf(from); got != want {
			t.Errorf("objectStateOf(%v) = %d, want %d", from, got, want)
		}
	}
}

// E6: several changes of one pod, in one comparison; a sandbox and a container
// with one ID are two things.
func TestSeveralChangesAreOneComparison(t *testing.T) {
	from := []object{{"s0", true, running}, {"a", false, running}, {"b", false, exited}, {"d", false, running}}
	to := []object{{"s0", true, exited}, {"a", false, running}, {"c", false, running}, {"s0", false, unknown}}
	kinds, died := deriveAll(normalize(from), normalize(to))
	if want := Started | Died | Removed | changed; kinds != want {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
	if want := []string{"s0", "d"}; !slices.Equal(died, want) {
		t.Errorf("died %v, want %v", died, want)
	}
}

// E3: names for logs.
func TestKindsHaveNames(t *testing.T) {
	for kind, want := range map[Kind]string{0: "none", Started | Removed: "Started|Removed", Died | PodSync: "Died|PodSync"} {
		if got := kind.String(); got != want {
			t.Errorf("%d: %q, want %q", kind, got, want)
		}
	}
}

// V1, V3: sets coalesce, each subscriber has its own, a slow one delays no other.
func TestSubscriptionHoldsEachPodOnce(t *testing.T) {
	var l subscribers
	slow, quick := l.join(), l.join()
	l.deliver("b", 1, time.Unix(1, 0), Started, nil)
	l.deliver("a", 2, time.Unix(2, 0), Died|changed, []string{"x"})
	l.deliver("b", 3, time.Unix(3, 0), Died, []string{"y", "y"})
	l.deliver("c", 4, time.Unix(4, 0), changed, nil) // E1: never delivered
	select {
	case <-quick.Ready():
	default:
		t.Fatal("not ready")
	}
	got := quick.Take()
	if len(got) != 2 || got[0].UID != "b" || got[0].Kinds != Started|Died || !slices.Equal(got[0].Died, []string{"y"}) || got[1].UID != "a" || got[0].Since != time.Unix(1, 0) {
		t.Errorf("V2: taken %+v", got)
	}
	if quick.Take() != nil {
		t.Error("taken twice")
	}
	quick.Close()
	l.deliver("d", 5, time.Unix(5, 0), Started, nil)
	if quick.Take() != nil {
		t.Error("delivered after Close")
	}
	if got := slow.Take(); len(got) != 3 {
		t.Errorf("slow subscriber has %d pods, want 3", len(got))
	}
}

// V1: at most 64 IDs per pod; beyond that all.
func TestDiedIDsAreBounded(t *testing.T) {
	s := newSubscription(func(*Subscription) {})
	for i := range maxDied {
		s.add("p", 1, time.Time{}, Died, []string{fmt.Sprint(i)})
	}
	if e := s.Take()[0]; len(e.Died) != maxDied || e.AllDied {
		t.Errorf("%d IDs, all %v", len(e.Died), e.AllDied)
	}
	for i := range maxDied + 9 {
		s.add("p", 1, time.Time{}, Died, []string{fmt.Sprint(i)})
	}
	if e := s.Take()[0]; e.Died != nil || !e.AllDied {
		t.Errorf("%d IDs, all %v", len(e.Died), e.AllDied)
	}
}

// Edge case 16, H5, PI2, PI3: a subscriber that is away for a minute of changes finds
// one entry per pod, and statuses that show the last of them.
func TestAwaySubscriberFindsOneEntryPerPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		for i := range 5 {
			b.pod(types.UID(fmt.Sprint(i)), "c")
		}
		for range 60 {
			for i := range 5 {
				b.container(types.UID(fmt.Sprint(i)), "c", sExited)
			}
			b.relist()
			for i := range 5 {
				b.container(types.UID(fmt.Sprint(i)), "c", sRunning)
			}
			b.relist()
		}
		if n := len(b.sub.pods); n != 5 {
			t.Errorf("%d pods in the set, want 5", n)
		}
		for _, e := range b.sub.Take() {
			if e.Kinds != Started|Died || len(e.Died) != 1 {
				t.Errorf("%+v", e)
			}
			if s, _ := b.Get(e.UID); !s.ContainersRunning() {
				t.Errorf("%s: status is older than its event", e.UID)
			}
		}
	})
}
