package pleg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// R14, R6, PI12, S1: the first relist delivers everything, the second nothing
// and costs two calls.
func TestUnchangedPodsCostTwoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("a", "c1", "c2")
		b.sandbox("b", 0, sNotReady, "")
		b.container("b", "c1", sExited, 3)
		b.relist()
		b.expect("first", "a: Started", "b: Died [b/s0 b/c1]")
		status, err := b.Get("b")
		if err != nil || status.Name != "pod-b" || status.Namespace != "ns" || status.Containers[0].ExitCode != 3 {
			t.Errorf("status of b: %+v, %v", status, err)
		}
		before := b.statusCalls()
		b.relist()
		b.expect("second")
		if got := b.statusCalls() - before; got != 0 {
			t.Errorf("unchanged pods cost %d status calls, want 0", got)
		}
		if got := b.count("ListPodSandbox") + b.count("ListContainers"); got != 4 {
			t.Errorf("two relists made %d list calls, want 4", got)
		}
	})
}

// Edge cases 1, 2, 3, 4, 5 and 33: what each transition delivers.
func TestTransitionsDeliverTheirEvents(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before func(*bench)
		change func(*bench)
		want   []string
	}{
		{"1 created and exited between relists", func(b *bench) { b.pod("p") }, func(b *bench) { b.container("p", "c", sExited) }, []string{"p: Died [p/c]"}},
		{"1 created and not started is no event", func(b *bench) { b.pod("p") }, func(b *bench) { b.container("p", "c", sCreated) }, nil},
		{"2 created to running", func(b *bench) { b.pod("p"); b.container("p", "c", sCreated) }, func(b *bench) { b.container("p", "c", sRunning) }, []string{"p: Started"}},
		{"2 running to unknown", func(b *bench) { b.pod("p", "c") }, func(b *bench) { b.container("p", "c", sUnknown) }, nil},
		{"2 unknown to running", func(b *bench) { b.pod("p"); b.container("p", "c", sUnknown) }, func(b *bench) { b.container("p", "c", sRunning) }, []string{"p: Started"}},
		{"3 running vanishes", func(b *bench) { b.pod("p", "c") }, func(b *bench) { b.remove("p", "c") }, []string{"p: Died|Removed [p/c]"}},
		{"3 exited vanishes", func(b *bench) { b.pod("p"); b.container("p", "c", sExited) }, func(b *bench) { b.remove("p", "c") }, []string{"p: Removed"}},
		{"5 sandbox exits under running containers", func(b *bench) { b.pod("p", "c") }, func(b *bench) { b.sandbox("p", 0, sNotReady, "") }, []string{"p: Died [p/s0]"}},
		{"33 exited to running", func(b *bench) { b.pod("p"); b.container("p", "c", sExited) }, func(b *bench) { b.container("p", "c", sRunning) }, []string{"p: Started"}},
		{"E4 restart is a new ID", func(b *bench) { b.pod("p", "c1") }, func(b *bench) { b.container("p", "c1", sExited); b.container("p", "c2", sRunning) }, []string{"p: Started|Died [p/c1]"}},
	} {
		inVirtualTime(t, tc.name, func(t *testing.T) {
			b := newBench(t, Options{})
			tc.before(b)
			b.relist()
			b.events()
			before := b.count("PodSandboxStatus p/s0")
			tc.change(b)
			b.relist()
			b.expect("change", tc.want...)
			if got := b.count("PodSandboxStatus p/s0") - before; got != 1 {
				t.Errorf("%d inspections, want 1 (E1, E6)", got)
			}
			b.relist()
			b.expect("again")
		})
	}
}

// Edge case 4, R7, PI4, C5: a pod that ended before it vanishes goes at once,
// with events from the record; a reader gets an empty status.
func TestEndedPodThatVanishesIsGoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("keep", "c")
		b.sandbox("p", 0, sNotReady, "")
		b.container("p", "c", sExited)
		b.relist()
		b.events()
		b.remove("p")
		after := b.Stamp()
		b.relist()
		b.expect("vanished", "p: Removed")
		status, err := b.GetNewerThan(t.Context(), "p", after)
		if err != nil || status.UID != "p" || len(status.Containers) != 0 {
			t.Errorf("GetNewerThan: %+v, %v; want an empty status", status, err)
		}
		if d := b.Dump(); len(d.Pods) != 1 {
			t.Errorf("dump still holds %v", d.Pods)
		}
	})
}

// A pod with something running that vanishes as a whole is believed gone when
// further lists agree; till then its entry stays and its freshness does not
// advance. The same for all pods at once: an empty list after a restart.
func TestLivePodThatVanishesIsConfirmedFirst(t *testing.T) {
	for _, polls := range []int{1, 2, 3} {
		inVirtualTime(t, fmt.Sprintf("%d empty lists", polls), func(t *testing.T) {
			b := newBench(t, Options{})
			b.pod("a", "c")
			b.pod("b", "c")
			b.relist()
			b.events()
			b.listed = func([]*runtimeapi.PodSandbox, []*runtimeapi.Container) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container) {
				return nil, nil
			}
			after := b.Stamp()
			for i := range polls {
				if i == 2 {
					b.remove("a")
					b.remove("b")
				}
				b.relist()
			}
			if polls < 3 {
				b.expect("empty list")
				if got := b.states("a"); len(got) != 2 {
					t.Errorf("entry after %d empty lists: %v", polls, got)
				}
				if b.isFresh("a", after) {
					t.Error("an unconfirmed absence counts as fresh")
				}
				b.listed = nil
				b.relist()
				b.expect("back")
				if !b.isFresh("a", after) {
					t.Error("not fresh after the pods are back")
				}
				return
			}
			b.expect("confirmed", "a: Died|Removed [a/s0 a/c]", "b: Died|Removed [b/s0 b/c]")
			if status, err := b.GetNewerThan(t.Context(), "a", after); err != nil || len(status.Containers) != 0 {
				t.Errorf("GetNewerThan: %+v, %v", status, err)
			}
		})
	}
	inVirtualTime(t, "switched off", func(t *testing.T) {
		b := newBench(t, Options{ConfirmVanished: -1})
		for _, uid := range []types.UID{"b", "a"} {
			b.pod(uid, "c")
			b.relist()
		}
		b.events()
		b.remove("b")
		b.remove("a")
		b.relist()
		b.expect("vanished, in order of UID", "a: Died|Removed [a/s0 a/c]", "b: Died|Removed [b/s0 b/c]")
	})
}

// R3, PI5, B8: a failed list changes nothing, one above the message limit included.
func TestFailedListChangesNothing(t *testing.T) {
	for _, method := range []string{"ListPodSandbox", "ListContainers"} {
		inVirtualTime(t, method, func(t *testing.T) {
			b := newBench(t, Options{})
			b.pod("p", "c")
			b.relist()
			b.events()
			before := b.Dump()
			b.container("p", "c", sExited)
			boom := fmt.Errorf("20,000 containers: %w", runtime.ErrExhausted)
			b.fail(failing(method, "", boom))
			if err := b.Relist(t.Context()); !errors.Is(err, runtime.ErrExhausted) {
				t.Fatalf("Relist: %v, want %v", err, boom)
			}
			b.expect("failed list")
			if after := b.Dump(); after.Global != before.Global || !slices.Equal(after.Pods, before.Pods) {
				t.Errorf("a failed list changed %+v to %+v", before, after)
			}
			b.fail(nil)
			b.relist()
			b.expect("next list", "p: Died [p/c]")
		})
	}
}

// Edge case 8, R8-R10, C6, PI6: a failing inspection is repeated each relist,
// the record waits, its events come once with the first success.
func TestFailedInspectionIsRepeatedEachRelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c")
		b.relist()
		b.events()
		b.container("p", "c", sExited, 1)
		boom := errors.New("boom")
		b.fail(failing("ContainerStatus", "p/", boom))
		for range 3 {
			after := b.Stamp()
			b.relist()
			b.expect("failing")
			if _, err := b.GetNewerThan(t.Context(), "p", after); !errors.Is(err, boom) {
				t.Errorf("GetNewerThan: %v, want boom (C6, edge 14)", err)
			}
			if status, err := b.Get("p"); err == nil || len(status.Containers) != 1 {
				t.Errorf("Get keeps the last good status beside the error: %v, %v", status, err)
			}
		}
		b.fail(nil)
		b.relist()
		b.expect("fourth", "p: Died [p/c]")
		b.relist()
		b.expect("fifth")
	})
}

// R10: a repeated inspection that finds nothing new delivers one PodSync. R13:
// so does a requested one. Edge case 35: for a pod that is gone it does nothing.
func TestRepeatedInspectionDeliversOnePodSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c")
		b.pod("q", "c")
		b.relist()
		b.events()

		b.Reinspect("p")
		b.Reinspect("never heard of")
		b.relist()
		b.expect("requested", "p: PodSync")
		b.relist()
		b.expect("once")

		b.sandbox("q", 0, sNotReady, "")
		b.container("q", "c", sExited)
		b.relist()
		b.events()
		b.Reinspect("q")
		b.remove("q")
		b.relist()
		b.expect("gone", "q: Removed")
	})
}

// Edge case 9: an inspection that fails and then has nothing to inspect.
func TestPodGoneAfterAFailedInspection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{ConfirmVanished: -1})
		b.pod("p", "c")
		b.relist()
		b.events()
		b.container("p", "c", sExited)
		b.fail(failing("ContainerStatus", "p/", errors.New("boom")))
		b.relist()
		b.remove("p")
		b.relist()
		b.expect("gone", "p: Died|Removed [p/s0 p/c]")
		if len(b.pods) != 0 || len(b.records) != 0 || len(b.ids) != 0 {
			t.Errorf("leaked %d pods, %d records, %d ids", len(b.pods), len(b.records), len(b.ids))
		}
	})
}

// B2: a panic of the client harms one pod.
func TestPanicHarmsOnePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c")
		b.pod("q", "c")
		b.fail(func(_ context.Context, method, id string) error {
			if id == "p/c" {
				panic("bad answer")
			}
			return nil
		})
		b.relist()
		b.expect("others", "q: Started")
		if _, err := b.Get("p"); err == nil {
			t.Error("no error for the pod whose inspection panicked")
		}
		b.fail(nil)
		b.relist()
		b.expect("recovered", "p: Started")
	})
}

// R11, edge cases 6 and 7: a finished pod keeps its addresses, a ready sandbox
// without one does not; after a restart there is nothing to keep.
func TestFinishedPodKeepsItsAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ips := func(b *bench) string { s, _ := b.Get("p"); return fmt.Sprint(s.IPs) }
		b := newBench(t, Options{})
		b.pod("p", "c")
		b.relist()
		b.sandbox("p", 0, sNotReady, "")
		b.container("p", "c", sExited)
		b.relist()
		if got := ips(b); got != "[10.0.0.1]" {
			t.Errorf("7: finished pod has %s", got)
		}
		b.sandbox("p", 1, sReady, "")
		b.relist()
		if got := ips(b); got != "[]" {
			t.Errorf("6: newer ready sandbox without address: %s", got)
		}
		b.sandbox("p", 1, sNotReady, "")
		fresh, err := New(b.script, Options{})
		if err != nil || fresh.Relist(t.Context()) != nil {
			t.Fatal(err)
		}
		if s, _ := fresh.Get("p"); len(s.IPs) != 0 {
			t.Errorf("7: after a restart: %v", s.IPs)
		}
	})
}

// Edge case 15, V1: 1,500 pods change in one relist, all are signalled, each is
// inspected once, in order of UID (B1).
func TestManyChangesAreEachInspectedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		const n = 1500
		var want []string
		for i := range n {
			uid := fmt.Sprintf("p%04d", i)
			b.pod(types.UID(uid), "c")
			want = append(want, uid+": Started")
		}
		b.relist()
		b.expect("first", want...)
		if got := b.count("ContainerStatus"); got != n {
			t.Errorf("%d inspections, want %d", got, n)
		}
	})
}

// Edge case 23, 24, S3: duplicates, objects without metadata, unknown states and
// foreign objects.
func TestOddListsAreReadAsFarAsPossible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c")
		b.container("p", "odd", runtimeapi.ContainerState(17))
		b.listed = func(sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container) {
			sandboxes = append(sandboxes, &runtimeapi.PodSandbox{Id: "bare", Labels: podLabels("bare")}, &runtimeapi.PodSandbox{Id: "stranger"}, nil)
			containers = append(containers, containers...)
			containers = append(containers, &runtimeapi.Container{Labels: podLabels("p")}, nil)
			return sandboxes, containers
		}
		b.relist()
		b.expect("odd list", "p: Started")
		want := []string{"p/c=running", "p/odd=unknown", "p/s0=running"}
		if got := b.states("p"); !slices.Equal(got, want) {
			t.Errorf("status %v, want %v", got, want)
		}
		d := b.Dump()
		if d.Malformed != 2 || d.Foreign != 3 {
			t.Errorf("malformed %d, foreign %d; want 2, 3", d.Malformed, d.Foreign)
		}
		calls := b.statusCalls()
		b.relist()
		b.listed = nil // the duplicates go: another fingerprint, the same objects
		b.relist()
		b.expect("without duplicates")
		if got := b.statusCalls(); got != calls {
			t.Errorf("%d inspection calls for duplicates", got-calls)
		}
	})
}

// Edge case 32, B6: the order of a list is not a change.
func TestOrderOfAListIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "a", "b", "c")
		b.relist()
		b.events()
		calls := b.statusCalls()
		b.listed = func(s []*runtimeapi.PodSandbox, c []*runtimeapi.Container) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container) {
			slices.Reverse(c)
			return s, c
		}
		b.relist()
		if got := b.statusCalls(); got != calls {
			t.Errorf("%d calls after a reordered list, want none", got-calls)
		}
		// Two objects that swap states are a change.
		b.container("p", "a", sExited)
		b.relist()
		b.events()
		b.container("p", "a", sRunning)
		b.container("p", "b", sExited)
		b.relist()
		b.expect("swapped", "p: Started|Died [p/b]")
	})
}

// E5: an ID that two pods claim is reported; both pods keep it.
func TestSharedIDIsReportedAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c")
		b.pod("q")
		b.listed = func(s []*runtimeapi.PodSandbox, c []*runtimeapi.Container) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container) {
			for _, x := range c {
				return s, append(c, &runtimeapi.Container{Id: x.Id, State: x.State, Labels: podLabels("q"), Metadata: x.Metadata, Image: x.Image})
			}
			return s, c
		}
		b.relist()
		if got := b.Dump().Conflicts; got != 1 {
			t.Errorf("conflicts = %d, want 1", got)
		}
		for _, uid := range []types.UID{"p", "q"} {
			if s, _ := b.Get(uid); len(s.Containers) != 1 {
				t.Errorf("%s has %d containers, want 1", uid, len(s.Containers))
			}
		}
	})
}

// The status may be ahead of the list: the next list, which has caught up, is no
// news and costs no inspection.
func TestListThatCatchesUpIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c")
		b.relist()
		b.events()
		b.container("p", "d", sRunning)
		b.fail(func(_ context.Context, method, id string) error {
			if method == "PodSandboxStatus" {
				b.container("p", "d", sExited)
			}
			return nil
		})
		b.relist()
		b.expect("exited while being read", "p: Died [p/d]")
		b.fail(nil)
		calls := b.statusCalls()
		b.relist()
		b.expect("list has caught up")
		if got := b.statusCalls(); got != calls {
			t.Errorf("%d calls, want none", got-calls)
		}
	})
}

// E7 has a limit: a list that shows the state from before a reading again is a
// change. A runtime that always contradicts itself is read ten times more.
func TestContradictingRuntimeIsReadTenTimesMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c")
		lie := func(s []*runtimeapi.PodSandbox, c []*runtimeapi.Container) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container) {
			for _, x := range c {
				x.State = sRunning
			}
			return s, c
		}
		b.listed = lie
		b.container("p", "c", sExited)
		b.relist()
		b.expect("the reading counts", "p: Started|Died [p/c]")
		b.container("p", "c", sRunning)
		b.relist()
		b.expect("the list shows the same, the reading does not", "p: Started")

		b.container("p", "c", sExited)
		b.relist() // list and status agreed: nothing to see in the list
		b.Reinspect("p")
		calls := b.statusCalls()
		for range 50 {
			b.relist()
		}
		if got := (b.statusCalls() - calls) / 2; got != maxDisputes+1 {
			t.Errorf("%d readings of a pod whose list and status contradict each other, want %d", got, maxDisputes+1)
		}
	})
}

// ListRunning reads again, keeps pods with something running and leaves the cache
// alone.
func TestListRunningLeavesTheCacheAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("b", "c")
		b.sandbox("a", 0, sNotReady, "")
		b.container("a", "c", sRunning)
		b.sandbox("dead", 0, sNotReady, "")
		pods, err := b.ListRunning(t.Context())
		if err != nil || len(pods) != 2 || pods[0].UID != "a" || pods[1].UID != "b" {
			t.Errorf("ListRunning: %v, %v", pods, err)
		}
		if b.Dump().Global != 0 {
			t.Error("ListRunning moved T")
		}
		boom := errors.New("boom")
		b.fail(failing("ListContainers", "", boom))
		if _, err := b.ListRunning(t.Context()); !errors.Is(err, boom) {
			t.Errorf("ListRunning: %v, want boom", err)
		}
	})
}

// The reader sees only pods of its owner.
func TestOnlyOwnPodsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OwnerID: "me", Sequence: &runtime.Sequence{}})
		b.pod("p", "c")
		b.relist()
		if len(b.Dump().Pods) != 0 {
			t.Error("a pod without owner is shown")
		}
	})
}
