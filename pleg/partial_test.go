package pleg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// partialLists are lists that lack what the runtime has: a runtime that restarts between the two calls of a list shows
// no containers, or no sandboxes.
var partialLists = map[string]func(id string) bool{
	"one container":  func(id string) bool { return strings.HasSuffix(id, "/c") },
	"all containers": func(id string) bool { return !strings.HasSuffix(id, "/s0") },
	"all sandboxes":  func(id string) bool { return strings.HasSuffix(id, "/s0") },
}

// R7 for single objects: an object that a list lacks is read by its ID, whatever its state, and is gone only if the
// runtime does not find it. Otherwise its pod would be believed ended, or would run it a second time.
func TestPartialList(t *testing.T) {
	looks := map[string]func(*bench) error{
		"relist":  func(b *bench) error { return b.Relist(b.t.Context()) },
		"refresh": func(b *bench) error { b.Refresh("p"); synctest.Wait(); return nil },
		"ReadNow": func(b *bench) error { _, err := b.ReadNow(b.t.Context(), "p"); return err },
	}
	for name, hidden := range partialLists {
		for _, state := range []runtimeapi.ContainerState{sCreated, sRunning, sExited} {
			for means, look := range looks {
				t.Run(fmt.Sprintf("%s %v by %s", name, state, means), func(t *testing.T) {
					inBubble(t, Options{}, func(b *bench) { b.pod("p", "d"); b.container("p", "c", state) }, func(b *bench) {
						want := b.states("p")
						after := b.Stamp()
						b.hiding(hidden)
						if err := look(b); err != nil {
							b.t.Error(err)
						}
						b.expect("partial list")
						b.want("partial list", "p", want...)
						if !b.isFresh("p", after) {
							b.t.Error("what was read by ID does not count as fresh")
						}
						if s, _ := b.Get("p"); slices.ContainsFunc(s.Containers, func(c *runtime.ContainerStatus) bool { return c.SandboxID != "p/s0" }) {
							b.t.Error("a container lost its sandbox")
						}
						b.remove("p", "c")
						pass(1100 * time.Millisecond)
						b.want("removed", "p", "p/d=running", "p/s0=running")
					})
				})
			}
		}
	}
}

// A pod that a single list of its own lacks altogether is read by the IDs of its objects too.
func TestListOfOnePodThatLacksIt(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "c") }, func(b *bench) {
		b.hiding(func(string) bool { return true })
		if s, err := b.ReadNow(b.t.Context(), "p"); err != nil || !s.ContainersRunning() || s.Name != "pod-p" {
			b.t.Errorf("ReadNow: %+v, %v", s, err)
		}
		b.expect("hidden")
	})
}

// R7: a runtime that has no proper answer for what it has forgotten hides nothing else of the pod: the rest is
// published, and the object counts as gone once more lists lack it.
func TestObjectThatCannotBeReadHidesNothingElse(t *testing.T) {
	for _, state := range []runtimeapi.ContainerState{sExited, sRunning} {
		for _, kind := range []string{"error", "hangs", "deaf"} {
			t.Run(fmt.Sprintf("%s %v", kind, state), func(t *testing.T) {
				inBubble(t, Options{}, func(b *bench) { b.pod("p", "d"); b.container("p", "c", state) }, func(b *bench) {
					block := make(chan struct{})
					defer close(block)
					b.fail(map[string]func(context.Context, string, string) error{
						"error": failing("ContainerStatus", "p/c", errors.New("code = Unknown")),
						"hangs": hanging("ContainerStatus", "p/c", false, nil),
						"deaf":  hanging("ContainerStatus", "p/c", true, block),
					}[kind])
					b.remove("p", "c")
					b.container("p", "d", sExited, 7)
					pass(2200 * time.Millisecond) // a relist, and the limit of the object
					b.expect("first", "p: Died [p/d]")
					last := "p/c=exited"
					if state == sRunning {
						last = "p/c=running"
					}
					b.want("first", "p", last, "p/d=exited", "p/s0=running")
					pass(3 * time.Second)
					b.want("later", "p", "p/d=exited", "p/s0=running")
					want := "p: Removed"
					if state == sRunning {
						want = "p: Died|Removed [p/c]"
					}
					b.expect("later", want)
					calls := b.statusCalls()
					pass(time.Minute)
					if got := b.statusCalls() - calls; got != 0 {
						b.t.Errorf("%d status calls after it is believed gone", got)
					}
				})
			})
		}
	}
}

// R7, B4: at most one call for an object that no list has stays behind, and it takes nothing from its pod.
func TestLostCallForAHiddenObject(t *testing.T) {
	inBubble(t, Options{ConfirmVanished: 20}, func(b *bench) { b.pod("p", "c", "d") }, func(b *bench) {
		block := make(chan struct{})
		b.fail(hanging("ContainerStatus", "p/c", true, block))
		b.hiding(func(id string) bool { return id == "p/c" })
		pass(15 * time.Second)
		if got := b.Health().WrittenOff; got != 1 {
			b.t.Errorf("%d lost calls, want 1", got)
		}
		if s, err := b.ReadNow(b.t.Context(), "p"); err != nil || len(s.Containers) != 2 {
			b.t.Errorf("ReadNow: %v, %v", s, err)
		}
		close(block)
		pass(3 * time.Second)
		if got := b.Health().WrittenOff; got != 0 {
			b.t.Errorf("%d lost calls after it returned", got)
		}
		pass(30 * time.Second)
		b.expect("read again")
		b.want("read again", "p", "p/c=running", "p/d=running", "p/s0=running")
	})
}

// R7, PI12: an object that lists lack for good is read less and less often, its pod costs nothing else, and its end is
// still seen. An error after that is no proof yet.
func TestObjectThatListsLackForGoodIsReadSlowly(t *testing.T) {
	for _, hidden := range []string{"p/c", "p/s0"} {
		t.Run(hidden, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Options{QuietPeriod: 5 * time.Second, Streamer: newTap()})
				b.pod("p", "d", "c")
				defer b.run()()
				synctest.Wait()
				b.events()
				b.hiding(func(id string) bool { return id == hidden })
				pass(3 * time.Minute)
				calls, lists := b.statusCalls(), b.count("ListContainers")
				pass(10 * time.Minute)
				if got := b.statusCalls() - calls; got > 33 {
					b.t.Errorf("%d status calls in 10 min, want a reading of 3 objects a minute", got)
				}
				if got := b.count("ListContainers") - lists; got > 250 {
					b.t.Errorf("%d lists in 10 min: the period is never the quiet one", got)
				}
				b.expect("hidden")
				b.fail(func(_ context.Context, method, id string) error {
					if id == hidden && strings.HasSuffix(method, "Status") {
						b.fail(nil)
						return errors.New("not now")
					}
					return nil
				})
				pass(70 * time.Second)
				b.expect("one error")
				b.remove("p", strings.TrimPrefix(hidden, "p/"))
				pass(70 * time.Second)
				b.expect("removed", "p: Died|Removed ["+hidden+"]")
			})
		})
	}
}

// R7: what is listed again is read at once, and if lists lack it later, as soon as the first time.
func TestHiddenObjectThatIsListedAgain(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "d", "c") }, func(b *bench) {
		for range 2 {
			b.hiding(func(id string) bool { return id == "p/c" })
			pass(90 * time.Second)
			b.hiding(func(string) bool { return false })
			b.container("p", "c", sExited)
			pass(1100 * time.Millisecond)
			b.expect("listed again", "p: Died [p/c]")
			b.container("p", "c", sRunning)
			pass(1100 * time.Millisecond)
			b.expect("runs", "p: Started")
			calls := b.statusCalls()
			pass(time.Minute)
			if got := b.statusCalls() - calls; got != 0 {
				b.t.Errorf("%d status calls of a pod that is listed in full", got)
			}
		}
	})
}

// R7, B15: lists of housekeeping do not count for an object that cannot be read either, and do not delay the relists that do.
func TestListRunningConfirmsNoHiddenObject(t *testing.T) {
	inBubble(t, Options{Period: 3 * time.Second}, func(b *bench) { b.pod("p", "d", "c") }, func(b *bench) {
		b.fail(failing("ContainerStatus", "p/c", errors.New("code = Unknown")))
		b.hiding(func(id string) bool { return id == "p/c" })
		for range 5 {
			if _, err := b.ListRunning(b.t.Context()); err != nil {
				b.t.Fatal(err)
			}
			synctest.Wait()
		}
		b.expect("lists of housekeeping")
		for range 6 {
			pass(2 * time.Second)
			if _, err := b.ListRunning(b.t.Context()); err != nil {
				b.t.Fatal(err)
			}
		}
		b.expect("relists", "p: Died|Removed [p/c]")
	})
}

// B14: a call says that it has removed an object, so no relist looks for it.
func TestRemovedObjectIsNotLookedFor(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "d"); b.container("p", "c", sExited) }, func(b *bench) {
		b.remove("p", "c")
		b.Removed("p", "p/c")
		pass(1100 * time.Millisecond)
		b.want("removed", "p", "p/d=running", "p/s0=running")
		if got := b.count("ContainerStatus p/c"); got != 1 {
			b.t.Errorf("%d calls for the removed container, want only the first", got)
		}
	})
}

// R7: one reading looks once for each object that is gone, however often it lists.
func TestGoneObjectsAreLookedForOnce(t *testing.T) {
	for name, read := range map[string]func(*bench) error{
		"ReadNow":     func(b *bench) error { _, err := b.ReadNow(b.t.Context(), "p"); return err },
		"ReadObjects": func(b *bench) error { _, err := b.ReadObjects(b.t.Context(), "p"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(b *bench) { b.pod("p", "c", "d", "e") }, func(b *bench) {
				b.remove("p")
				calls := b.statusCalls()
				if err := read(b); err != nil {
					b.t.Error(err)
				}
				if got := b.statusCalls() - calls; got != 4 {
					b.t.Errorf("%d status calls for 4 objects", got)
				}
				b.want("gone", "p")
			})
		})
	}
}

// R7, C7: a list that began before a pod's container started says nothing about the pod as it is now, so the next list,
// of a runtime that has just restarted and shows nothing, does not make the pod gone.
func TestOlderListIsNoVerdict(t *testing.T) {
	for name, look := range map[string]func(*bench){
		"relist": func(*bench) { pass(1100 * time.Millisecond) },
		// The runtime knows nothing of the pod for a moment.
		"refresh": func(b *bench) { b.Refresh("p"); synctest.Wait() },
		"ReadNow": func(b *bench) {
			time.AfterFunc(reportDelay/2, func() { b.fail(nil); b.hiding(func(string) bool { return false }) })
			if _, err := b.ReadNow(b.t.Context(), "p"); err != nil {
				b.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(b *bench) { b.sandbox("p", 0, sNotReady, "") }, func(b *bench) {
				slow, answer := make(chan struct{}), make(chan struct{})
				b.fail(func(_ context.Context, method, id string) error {
					if method == "ListContainers" && id == "" { // the sandboxes have been listed
						select {
						case <-answer:
						default:
							close(slow)
							<-answer
						}
					}
					return nil
				})
				<-slow
				b.sandbox("p", 1, sReady, "10.0.0.1")
				b.container("p", "c", sRunning)
				if s, err := b.ReadNow(b.t.Context(), "p"); err != nil || !s.ContainersRunning() {
					b.t.Fatal(s, err)
				}
				b.hiding(func(id string) bool { return id == "p/c" })
				close(answer)
				synctest.Wait()
				b.hiding(func(string) bool { return true })
				if name != "relist" {
					b.fail(func(_ context.Context, method, _ string) error {
						if strings.HasSuffix(method, "Status") {
							return runtime.ErrNotFound
						}
						return nil
					})
				}
				look(b)
				if s, err := b.Get("p"); err != nil || !s.ContainersRunning() {
					b.t.Errorf("believed gone: %v, %v", statesOf(s), err)
				}
			})
		})
	}
}

// R7: a container that a list showed running counts, even if it could not be read.
func TestContainerThatWasListedRunningMayRun(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.sandbox("p", 0, sNotReady, ""); b.container("p", "c", sExited) }, func(b *bench) {
		b.fail(failing("ContainerStatus", "p/d", errors.New("not now")))
		b.container("p", "d", sRunning)
		pass(1100 * time.Millisecond)
		b.hiding(func(string) bool { return true })
		pass(time.Second)
		b.expect("one empty list")
	})
}

// HK5, R7: what a partial list lacks still runs as far as housekeeping is concerned, unless a call has removed it or the
// list shows its end. Otherwise its folder and cgroup would be taken from under it.
func TestListRunningHasWhatAPartialListLacks(t *testing.T) {
	for _, run := range []bool{true, false} {
		t.Run(fmt.Sprintf("Run %v", run), func(t *testing.T) {
			inBubble(t, Options{}, func(b *bench) { b.pod("p", "c"); b.sandbox("q", 0, sNotReady, ""); b.container("q", "c", sRunning) }, func(b *bench) {
				running := func() (uids []types.UID) {
					pods, err := b.ListRunning(b.t.Context())
					if err != nil {
						b.t.Error(err)
					}
					for _, p := range pods {
						uids = append(uids, p.UID)
					}
					return uids
				}
				if !run {
					b.Generator.mu.Lock()
					b.Generator.running = false
					b.Generator.mu.Unlock()
				}
				b.hiding(func(id string) bool { return strings.HasSuffix(id, "/c") })
				if got := running(); !slices.Equal(got, []types.UID{"p", "q"}) {
					b.t.Errorf("without containers: %v", got)
				}
				b.hiding(func(string) bool { return true })
				if got := running(); !slices.Equal(got, []types.UID{"p", "q"}) {
					b.t.Errorf("empty list: %v", got)
				}
				b.remove("q", "c")
				b.Removed("q", "q/c")
				b.sandbox("p", 0, sNotReady, "")
				b.container("p", "c", sExited)
				b.hiding(func(string) bool { return false })
				if got := running(); len(got) > 0 {
					b.t.Errorf("ended: %v", got)
				}
			})
		})
	}
}

// HK5, R7: what ListRunning adds to a partial list is as complete, and in the same order, as what a list shows. Orphans are
// stopped by it: the hook, the grace and the turn of a container are in its annotations.
func TestListRunningHasAllOfWhatAPartialListLacks(t *testing.T) {
	lists := maps.Clone(partialLists)
	lists["everything"] = func(string) bool { return true }
	for name, hidden := range lists {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(b *bench) {
				b.pod("p", "b", "c", "d")
				b.sandbox("p", 1, sReady, "10.0.0.2")
				for i, id := range []string{"p/c", "p/d", "p/b"} {
					c := b.containers[id]
					c.CreatedAt, c.Metadata.Attempt = int64(i+1), uint32(i)
					c.Annotations = map[string]string{"hook": id, runtime.AnnotationRestartCount: fmt.Sprint(i)}
				}
			}, func(b *bench) {
				list := func() *runtime.Pod {
					pods, err := b.ListRunning(b.t.Context())
					if err != nil || len(pods) != 1 {
						b.t.Fatal(pods, err)
					}
					pods[0].Stamp = 0 // that of the list
					return pods[0]
				}
				want := list()
				b.hiding(hidden)
				if diff := cmp.Diff(want, list()); diff != "" {
					b.t.Errorf("-full list +partial list:\n%s", diff)
				}
			})
		})
	}
}
