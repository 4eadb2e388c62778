package pleg

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// R7, C7: a list that began before a pod's container started says nothing about the pod as it is now, so the next list,
// of a runtime that has just restarted and shows nothing, does not make the pod gone.
func TestOlderListIsNoVerdict(t *testing.T) {
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
		pass(1100 * time.Millisecond)
		if s, err := b.Get("p"); err != nil || !s.ContainersRunning() {
			b.t.Errorf("believed gone after one list: %v, %v", statesOf(s), err)
		}
	})
}
