package pleg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// lists is the number of list calls since the last look.
func (b *bench) lists(since *int) int {
	n := b.count("ListPodSandbox") + b.count("ListContainers")
	defer func() { *since = n }()
	return n - *since
}

// make makes a pod as a syncer does, and tells of it.
func (b *bench) make(uid types.UID, container string) {
	b.Hold(uid)
	b.sandbox(uid, 0, sReady, "10.0.0.1")
	b.Made(uid, string(uid)+"/s0", "")
	b.Report(uid, string(uid)+"/s0", runtime.Running)
	b.container(uid, container, sRunning)
	b.Made(uid, string(uid)+"/"+container, string(uid)+"/s0")
	b.Report(uid, string(uid)+"/"+container, runtime.Running)
}

// read calls ReadObjects, which must succeed.
func (b *bench) read(uid types.UID) *runtime.PodStatus {
	b.t.Helper()
	status, err := b.ReadObjects(b.t.Context(), uid)
	if err != nil {
		b.t.Fatal(err)
	}
	return status
}

// hiding has lists lack some objects.
func (b *bench) hiding(hidden func(id string) bool) {
	b.script.mu.Lock()
	defer b.script.mu.Unlock()
	b.listed = func(sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container) {
		return slices.DeleteFunc(sandboxes, func(s *runtimeapi.PodSandbox) bool { return hidden(s.Id) }),
			slices.DeleteFunc(containers, func(c *runtimeapi.Container) bool { return hidden(c.Id) })
	}
}

func (b *bench) want(what string, uid types.UID, states ...string) {
	b.t.Helper()
	if got := b.states(uid); !slices.Equal(got, states) {
		b.t.Errorf("%s: %q, want %q", what, got, states)
	}
}

// TestObjectsAreReadByID: B14. What a step made, stopped and removed is read by the IDs of the objects,
// without a list, and is as new as a list would be.
func TestObjectsAreReadByID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.relist()
		lists := 0
		b.lists(&lists)
		b.make("p", "c")
		after := b.Stamp()
		status := b.read("p")
		b.Release("p")
		if n := b.lists(&lists); n != 0 || status.Stamp <= after || status.Name != "pod-p" || status.Namespace != "ns" || len(status.IPs) != 1 || status.Containers[0].SandboxID != "p/s0" {
			t.Errorf("%d lists, %+v", n, status)
		}
		b.want("made", "p", "p/c=running", "p/s0=running")
		calls := b.statusCalls()
		b.relist() // shows what is known
		if n := b.statusCalls() - calls; n != 0 || len(b.pods["p"].made) != 0 {
			t.Errorf("%d calls for a pod that did not change, %v", n, b.pods["p"].made)
		}
		b.lists(&lists)

		b.container("p", "c", sExited, 1)
		b.sandbox("p", 0, sNotReady, "")
		b.read("p")
		b.want("stopped", "p", "p/c=exited", "p/s0=exited")
		b.remove("p", "c")
		b.Removed("p", "p/c")
		b.remove("p", "s0")
		b.Removed("p", "p/s0")
		calls = b.statusCalls()
		if status = b.read("p"); len(status.Sandboxes)+len(status.Containers) != 0 || b.statusCalls() != calls || b.lists(&lists) != 0 {
			t.Errorf("removed: %+v, %d calls", status, b.statusCalls()-calls)
		}
		b.relist()
		if len(b.pods) != 0 {
			t.Error("a pod that is gone is remembered")
		}
	})
}

// TestMadeObjectThatNoReadingSaw: R7, C11. A pod of which only a list has shown what was made for it is gone once the
// lists agree on that, and whoever waits for a newer view gets one.
func TestMadeObjectThatNoReadingSaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.relist()
		b.make("p", "c")
		b.relist() // shows it, and is not read during the hold
		b.remove("p", "c", "s0")
		b.Release("p")
		b.fail(failing("ListPodSandbox", "", runtime.ErrUnavailable))
		if status, err := b.ReadNow(t.Context(), "p"); err == nil {
			t.Errorf("read %+v", status)
		}
		b.fail(nil)
		after := b.Stamp()
		for range 4 {
			b.relist()
		}
		if !b.isFresh("p", after) || len(b.pods) != 0 {
			t.Errorf("%+v", b.Dump().Pods)
		}
	})
}

// TestUnlistedObjectStays: B14, D7. A list that lags behind the runtime, or never shows an object,
// removes nothing from a pod's view, and what becomes of the object is still seen.
func TestUnlistedObjectStays(t *testing.T) {
	for name, hidden := range map[string]func(id string) bool{
		"the container": func(id string) bool { return strings.HasSuffix(id, "/c") },
		"the whole pod": func(string) bool { return true },
	} {
		inVirtualTime(t, name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.relist()
			b.hiding(hidden)
			b.make("p", "c")
			b.read("p")
			b.Release("p")
			b.events()
			for range 20 { // more lists than a contradiction needs to be believed
				after := b.Stamp()
				b.relist()
				b.want("not listed", "p", "p/c=running", "p/s0=running")
				if !b.isFresh("p", after) {
					t.Fatal("the pod does not profit from a relist")
				}
			}
			b.container("p", "c", sExited, 3)
			b.relist()
			b.want("exited", "p", "p/c=exited", "p/s0=running")
			b.expect("exited", "p: Died [p/c]")
			b.hiding(func(string) bool { return false })
			b.relist()
			b.want("listed", "p", "p/c=exited", "p/s0=running")
			if made := b.pods["p"].made; len(made) != 0 {
				t.Errorf("%v is still taken for not listed", made)
			}
			calls := b.statusCalls()
			if b.relist(); b.statusCalls() != calls {
				t.Error("a pod that did not change is read")
			}
		})
	}
}

// TestUnlistedObjectThatIsGoneGoes: B14. An object that no list has shown and that the runtime does not know any
// more is gone, and its pod with it.
func TestUnlistedObjectThatIsGoneGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.relist()
		b.hiding(func(string) bool { return true })
		b.make("p", "c")
		b.read("p")
		b.Release("p")
		b.remove("p", "c")
		b.relist()
		b.want("the container is gone", "p", "p/s0=running")
		b.remove("p")
		for range 2 + defaultConfirmVanished {
			b.relist()
		}
		if len(b.pods) != 0 {
			t.Errorf("%+v", b.pods["p"])
		}
	})
}

// TestListDuringAStepIsNotTheEndOfIt: B14, D8. Lists made while a step runs may show only part of
// what it makes, or something unknown to it. They neither end up in the view nor are forgotten.
func TestListDuringAStepIsNotTheEndOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.relist()
		b.Hold("p")
		b.sandbox("p", 0, sReady, "10.0.0.1")
		b.Made("p", "p/s0", "")
		b.sandbox("p", 1, sNotReady, "") // of a call that was cut off long ago
		b.relist()
		if got := b.states("p"); len(got) != 0 {
			t.Errorf("%q is shown in the middle of a step", got)
		}
		b.container("p", "c", sRunning)
		b.Made("p", "p/c", "p/s0")
		b.read("p")
		b.Release("p")
		b.want("after the step", "p", "p/c=running", "p/s0=running", "p/s1=exited")
	})
}

// TestSandboxIsReadOnce: B14. A sandbox that its step has read is not read again with the step's
// containers, unless it was stopped since, or the step is over.
func TestSandboxIsReadOnce(t *testing.T) {
	for name, after := range map[string]struct {
		do    func(b *bench)
		reads int
	}{
		"read by the step":  {func(*bench) {}, 0},
		"stopped since":     {func(b *bench) { b.sandbox("p", 0, sNotReady, ""); b.Report("p", "p/s0", runtime.Exited) }, 1},
		"in an earlier one": {func(b *bench) { b.Release("p"); b.Hold("p") }, 1},
	} {
		inVirtualTime(t, name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.relist()
			b.make("p", "c")
			b.Described("p", cri.NewSandboxStatus(b.sandboxes["p/s0"]))
			b.Described("p", &runtime.SandboxStatus{ID: "of another step"})
			b.Described("q", &runtime.SandboxStatus{ID: "of a pod that is not held"})
			after.do(b)
			status := b.read("p")
			b.Release("p")
			if n := b.count("PodSandboxStatus"); n != after.reads || len(status.Sandboxes) != 1 {
				t.Errorf("read %d times, want %d: %+v", n, after.reads, status)
			}
			b.read("p")
			if n := b.count("PodSandboxStatus"); n != after.reads+1 {
				t.Errorf("read %d times in all: what the step read was used twice", n)
			}
		})
	}
}

// TestObjectsThatAreNotKnownAreListed: B14. Before the first list, after a failed reading, and if
// nothing of what was known exists any more, ReadObjects makes a list.
func TestObjectsThatAreNotKnownAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c")
		lists := 0
		if b.read("p"); b.lists(&lists) != 2 {
			t.Error("no list before the first relist")
		}
		b.relist()
		b.lists(&lists)
		b.fail(failing("ContainerStatus", "p/c", errors.New("told to")))
		if _, err := b.ReadObjects(t.Context(), "p"); err == nil || b.lists(&lists) != 0 {
			t.Error(err)
		}
		b.fail(nil)
		if b.read("p"); b.lists(&lists) != 2 {
			t.Error("no list after a reading that failed")
		}
		b.remove("p")
		b.sandbox("p", 1, sReady, "10.0.0.2") // by someone else
		if b.read("p"); b.lists(&lists) != 2 {
			t.Error("no list though nothing of the pod is there")
		}
		b.want("of another life", "p", "p/s1=running")
	})
}

// TestStatusThatFailsForADay: B14, R9. While the runtime does not describe what was made, there is no view without
// it; then it is there.
func TestStatusThatFailsForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.relist()
		b.hiding(func(string) bool { return true })
		b.fail(failing("ContainerStatus", "", errors.New("told to")))
		defer b.run()()
		b.make("p", "c")
		after := b.Stamp()
		if _, err := b.ReadObjects(t.Context(), "p"); err == nil {
			t.Error("no error")
		}
		b.Release("p")
		// A day of relists with the race detector takes longer than most packages.
		hours := 24
		if raceDetector {
			hours = 1
		}
		for range hours {
			pass(time.Hour)
			if status, err := b.Get("p"); err == nil || status != nil {
				t.Fatalf("%+v, %v", status, err)
			}
		}
		b.fail(nil)
		pass(2 * time.Second)
		status, err := b.GetNewerThan(ctxFor(t, time.Second), "p", after)
		if err != nil || len(status.Containers) != 1 {
			t.Errorf("%+v, %v", status, err)
		}
	})
}

// TestHungListKeepsNoStepFromItsReading: B14, D2. A step reads what it made while a list of everything hangs, or fails.
func TestHungListKeepsNoStepFromItsReading(t *testing.T) {
	for name, hook := range map[string]func(release <-chan struct{}) func(context.Context, string, string) error{
		"hangs": func(release <-chan struct{}) func(context.Context, string, string) error {
			return hanging("ListPodSandbox", "", true, release)
		},
		"fails": func(<-chan struct{}) func(context.Context, string, string) error {
			return failing("ListPodSandbox", "", errors.New("told to"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Options{})
				b.relist()
				release := make(chan struct{})
				stop := b.run()
				defer stop()
				defer close(release)
				b.fail(hook(release))
				pass(2 * time.Second)
				for i := range 100 {
					uid := types.UID(fmt.Sprint("p", i))
					b.make(uid, "c")
					began := time.Now()
					if status := b.read(uid); len(status.Containers) != 1 || time.Since(began) > 0 {
						t.Errorf("%+v after %v", status, time.Since(began))
					}
					b.Release(uid)
				}
			})
		})
	}
}

// TestStopThatIsKnownIsNotReadAgain: B14, EV3. The event of a stop that the pod's own call caused, or
// of an object that it removed, is no reason to read the pod; any other event is, by the pod's objects.
func TestStopThatIsKnownIsNotReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.relist()
		b.make("p", "c")
		b.container("p", "d", sRunning)
		b.Made("p", "p/d", "p/s0")
		b.read("p")
		b.Release("p")
		defer b.run()()
		pass(2500 * time.Millisecond)
		lists := 0
		b.lists(&lists)
		stopped := func(id string) (calls int) {
			calls = b.statusCalls()
			b.hint(t.Context(), &runtimeapi.ContainerEventResponse{
				ContainerId: id, ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT,
				PodSandboxStatus: b.sandboxes["p/s0"],
			})
			synctest.Wait()
			return b.statusCalls() - calls
		}
		b.container("p", "c", sExited, 0)
		if n := stopped("p/c"); n != 3 || b.lists(&lists) != 0 {
			t.Errorf("%d calls", n)
		}
		b.want("read", "p", "p/c=exited", "p/d=running", "p/s0=running")
		if n := stopped("p/c"); n != 0 {
			t.Errorf("%d calls for an end that was published", n)
		}
		b.container("p", "d", sExited, 0)
		b.Report("p", "p/d", runtime.Exited)
		if n := stopped("p/d"); n != 0 {
			t.Errorf("%d calls for a stop of the pod's own", n)
		}
		b.remove("p", "c")
		b.Removed("p", "p/c")
		if n := stopped("p/c"); n != 0 || b.lists(&lists) != 0 {
			t.Errorf("%d calls for an object that was removed", n)
		}
	})
}
