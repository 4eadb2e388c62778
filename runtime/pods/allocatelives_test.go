package pods_test

import (
	"testing"
	"testing/synctest"

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
	for _, asks := range []string{"1 1000", "3 1000"} {
		a := begin()
		a.Renewed("uid-1")
		next := apps(asks)
		a.Admitted(next)
		if got, _, err := a.Allocate(next); err != nil || got != next {
			t.Errorf("%v, allocated %v", err, got.Spec.Containers[0].Resources)
		}
		if again := begin().Granted(next); again != next {
			t.Errorf("stored as %v", again.Spec.Containers[0].Resources)
		}
	}
	a := begin()
	a.Renewed("uid-1")
	a.Renewed("uid-2")
	if known := a.Known(); len(known) != 1 || known[0] != "uid-1" {
		t.Errorf("known: %v", known)
	}
	if err := a.Forget("uid-1"); err != nil || len(store.memoryStore) > 0 {
		t.Errorf("%v, records %v", err, store.memoryStore)
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
