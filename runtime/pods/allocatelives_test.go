package pods_test

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/pods"
)

// spec/runtime.md 21.1: the record of a pod that is gone is removed as soon as the store can, so that it does not count
// for the next agent, nor for the next life of its UID.
func TestRecordOfAGonePodGoesWithIt(t *testing.T) {
	store := &unreliableStore{memoryStore: memoryStore{}}
	a, err := pods.NewAllocations(pods.AllocationOptions{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Allocate(apps("1 1000")); err != nil {
		t.Fatal(err)
	}
	store.fails = true
	for range 2 {
		if err := a.Forget("uid-1"); err == nil {
			t.Error("the record is left, and no error says so")
		}
	}
	if known := a.Known(); len(known) != 1 || known[0] != "uid-1" {
		t.Errorf("known: %v", known)
	}
	store.fails = false
	if err := a.Forget("uid-1"); err != nil || len(store.memoryStore) > 0 || len(a.Known()) > 0 {
		t.Errorf("%v, records %v, known %v", err, store.memoryStore, a.Known())
	}
}

// spec/runtime.md 21.1: the next life of a UID is allocated what it asks for, and the record of the earlier one is replaced, or
// removed if nothing more is heard of the UID.
func TestNextLifeIsAllocatedWhatItAsksFor(t *testing.T) {
	store := &unreliableStore{memoryStore: memoryStore{}}
	begin := func() *pods.Allocations {
		a, err := pods.NewAllocations(pods.AllocationOptions{Store: store})
		if err == nil {
			err = a.Load()
		}
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	at := time.Unix(1000, 0)
	for _, asks := range []string{"1 1000", "3 1000"} {
		a, next := begin(), apps(asks)
		at = at.Add(time.Hour)
		a.Admitted(next, at, false)
		if got, _, err := a.Allocate(next); err != nil || got != next {
			t.Errorf("%v, allocated %v", err, got.Spec.Containers[0].Resources)
		}
		if again := begin().Granted(next); again != next {
			t.Errorf("stored as %v", again.Spec.Containers[0].Resources)
		}
	}
	a, none := begin(), apps("2 1000")
	a.Admitted(none, at.Add(time.Hour), false)
	if got := a.Granted(none); got != none {
		t.Errorf("it has %v", got.Spec.Containers[0].Resources)
	}
	if err := a.Forget("uid-1"); err != nil || len(store.memoryStore) > 0 {
		t.Errorf("%v, records %v", err, store.memoryStore)
	}
}

// spec/runtime.md 21.1: what a life was allocated stays its own in the next agent, also before its first start, or if that was
// not written, or if it was admitted again.
func TestAllocationStaysWithItsLife(t *testing.T) {
	at, store := time.Unix(1000, 0), memoryStore{}
	has := ""
	for _, test := range []struct {
		at      time.Time
		started bool
		asks    string
	}{{at, false, "1 1000"}, {at, false, "3 1000"}, {at.Add(time.Hour), true, "2 1000"}, {at.Add(time.Hour), false, "4 1000"}} {
		a, err := pods.NewAllocations(pods.AllocationOptions{Store: store})
		if err == nil {
			err = a.Load()
		}
		if err != nil {
			t.Fatal(err)
		}
		first := apps("1 1000")
		a.Admitted(first, test.at, test.started)
		if got := a.Granted(first); has != "" && !equality.Semantic.DeepEqual(got.Spec, apps(has).Spec) {
			t.Errorf("it was allocated %s and has %v", has, got.Spec.Containers[0].Resources)
		}
		has = test.asks
		if _, _, err := a.Allocate(apps(has)); err != nil {
			t.Fatal(err)
		}
	}
}

// spec/runtime.md 21.1, 21.4: what a pod was allocated counts from the start of the next agent, even if the pod was not
// given it yet and no source has named the pod.
func TestAllocationCountsBeforeItsPodIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, false)
		w.to(apps("1 1000"))
		if _, _, err := w.a.Allocate(apps("3 1000")); err != nil { // and the agent dies
			t.Fatal(err)
		}
		w.reload()
		for _, cpu := range []string{"1", "2"} { // of 4, of which the other pod has 3
			p := apps(cpu + " 1000")
			p.UID = "uid-2"
			if _, _, err := w.a.Allocate(p); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.conditions("uid-2"); got != "PodResizePending Deferred" {
			t.Errorf("conditions %q", got)
		}
	})
}

// spec/runtime.md 21.4: a pod that is gone, or is about to go, gets no room that another one waits for.
func TestRoomGoesToPodsThatStay(t *testing.T) {
	for _, why := range []string{"deleted", "ended"} {
		t.Run(why, func(t *testing.T) {
			c := newCrowd(t, 4)
			c.ask(0, "2")
			c.ask(1, "2")
			switch why {
			case "deleted":
				going := c.active[0].DeepCopy()
				going.DeletionTimestamp = ptr.To(metav1.Now())
				c.active[0] = going
				c.gone(3)
			case "ended":
				c.gone(3)
				c.active = c.active[1:]
			}
			c.woken = nil
			c.a.Retry(false)
			if len(c.woken) != 1 || c.woken[0] != "u1" {
				t.Errorf("woken: %v", c.woken)
			}
		})
	}
}
