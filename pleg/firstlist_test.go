package pleg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// inVirtualTime runs a subtest in a bubble of its own.
func inVirtualTime(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// R15: what an earlier agent knew of and the first list lacks is read by its ID. A listed container names its sandbox.
func TestFirstListWithGaps(t *testing.T) {
	for name, hidden := range partialLists {
		inVirtualTime(t, name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.pod("p", "c", "d")
			b.pod("q", "c", "d")
			b.Recall("p", "p/c", "p/d")
			b.Recall("q", "q/c", "q/d")
			b.hiding(hidden)
			for range 3 {
				b.relist()
				for _, uid := range []types.UID{"p", "q"} {
					b.want("partial list", uid, string(uid)+"/c=running", string(uid)+"/d=running", string(uid)+"/s0=running")
					s, _ := b.Get(uid)
					if s.Name != "pod-"+string(uid) || len(s.IPs) != 1 || slices.ContainsFunc(s.Containers, func(c *runtime.ContainerStatus) bool { return c.SandboxID != string(uid)+"/s0" }) {
						t.Errorf("%+v", s)
					}
				}
			}
			b.hiding(func(string) bool { return false })
			b.relist()
			calls := b.statusCalls()
			b.relist()
			if got := b.statusCalls() - calls; got != 0 {
				t.Errorf("%d calls for unchanged pods", got)
			}
		})
	}
}

// R15: a list that lacks the whole pod lacks its sandbox, which is not known. The pod is not shown without it, however
// long that lasts, unless all of it is dead: then as long as an object that cannot be read.
func TestFirstListWithoutThePod(t *testing.T) {
	for name, c := range map[string]struct {
		dead  bool
		lists int
		want  []string
	}{
		"runs":       {false, 50, nil},
		"dead":       {true, 2, nil},
		"dead, long": {true, 3, []string{"p/c=exited"}},
	} {
		inVirtualTime(t, name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.pod("p", "c")
			if c.dead {
				b.container("p", "c", sExited, 7)
			}
			b.Recall("p", "p/c", "p/gone")
			b.hiding(func(string) bool { return true })
			for i := range c.lists {
				b.relist()
				if s, err := b.Get("p"); s != nil && c.want == nil || err == nil && c.want == nil {
					t.Fatalf("after list %d: %q, %v", i+1, b.states("p"), err)
				}
			}
			if c.want != nil {
				b.want("hidden", "p", c.want...)
				if s, _ := b.Get("p"); s.Name != "pod-p" || s.Namespace != "ns" {
					t.Errorf("%+v", s)
				}
			}
			b.hiding(func(string) bool { return false })
			b.relist()
			state := "running"
			if c.dead {
				state = "exited"
			}
			b.want("listed", "p", "p/c="+state, "p/s0=running")
			calls := b.statusCalls()
			b.relist()
			if got := b.statusCalls() - calls; got != 0 {
				t.Errorf("%d calls for an unchanged pod", got)
			}
		})
	}
}

// R15: a recalled container that has a new sandbox beside its old one belongs to the one that is not younger. If that is none
// of those that the list has, or if it has ended and the container runs, the list lacks the container's sandbox.
func TestRecalledContainerFindsItsSandbox(t *testing.T) {
	for name, c := range map[string]struct {
		made  int64
		state runtimeapi.ContainerState
		want  string
	}{
		"first":               {1, sExited, "p/s0"},
		"second":              {2, sExited, "p/s1"},
		"newest, dead":        {9, sExited, "p/s2"},
		"newest, runs":        {9, sRunning, "p/s2"},
		"older than all":      {0, sExited, ""},
		"older, runs":         {0, sRunning, ""},
		"runs where none can": {2, sRunning, ""},
	} {
		inVirtualTime(t, name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.sandbox("p", 0, sNotReady, "")
			b.sandbox("p", 1, sNotReady, "")
			b.sandbox("p", 2, sReady, "10.0.0.1")
			b.container("p", "c", c.state)
			b.containers["p/c"].CreatedAt = c.made
			b.Recall("p", "p/c")
			b.hiding(func(id string) bool { return id == "p/c" })
			b.relist()
			s, err := b.Get("p")
			if c.want == "" && err == nil || c.want != "" && (err != nil || s.Container("c") == nil || s.Container("c").SandboxID != c.want) {
				t.Errorf("%+v, %v", s, err)
			}
			b.hiding(func(string) bool { return false })
			b.relist()
			if s, err := b.Get("p"); err != nil || s.Container("c") == nil {
				t.Errorf("listed: %+v, %v", s, err)
			}
		})
	}
}

// R15: records that are wrong give a pod nothing that is not its own, cost one call each, and leave nothing behind.
func TestRecalledByMistake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OwnerID: "me"})
		for _, uid := range []types.UID{"p", "q", "others"} {
			b.pod(uid, "c")
			owner := "me"
			if uid == "others" {
				owner = "you"
			}
			for _, labels := range []map[string]string{b.containers[string(uid)+"/c"].Labels, b.sandboxes[string(uid)+"/s0"].Labels} {
				labels[runtime.LabelOwner] = owner
			}
		}
		b.containers["p"] = b.containers["p/c"] // a runtime that takes the beginning of an ID
		b.hiding(func(id string) bool { return id == "p" })
		b.Recall("p", "q/c", "others/c", "gone", "p", "p/s0")
		b.Recall("others", "others/c")
		b.Recall("nothing", "gone", "q/c")
		b.Recall("none")
		b.relist()
		b.want("p", "p", "p/c=running", "p/s0=running")
		b.want("nothing", "nothing")
		for _, uid := range []types.UID{"nothing", "none", "others"} {
			if s, err := b.Get(uid); err != nil || len(s.Containers) > 0 {
				t.Errorf("%s: %+v, %v", uid, s, err)
			}
		}
		if hidden := b.pods["p"].hidden; len(hidden) > 0 {
			t.Errorf("%+v", hidden)
		}
		b.relist()
		if got := b.count("ContainerStatus others/c"); got != 2 {
			t.Errorf("%d calls for a container of others, want one for each pod that recalls it", got)
		}
		if len(b.pods) != 2 {
			t.Errorf("%d records: %+v", len(b.pods), b.Dump().Pods)
		}
	})
}

// R15: a runtime that gives no proper answer for what it has forgotten holds a pod up for some lists. Then it counts as gone.
func TestRecalledThatCannotBeRead(t *testing.T) {
	for _, listed := range []bool{true, false} {
		for _, kind := range []string{"error", "hangs", "deaf"} {
			t.Run(fmt.Sprintf("%s, listed %v", kind, listed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, Options{})
					want := []string(nil)
					if listed {
						b.pod("p", "d")
						want = []string{"p/d=running", "p/s0=running"}
					}
					b.pod("q", "c")
					b.Recall("p", "p/c", "p/d")
					block := make(chan struct{})
					defer close(block)
					b.fail(map[string]func(context.Context, string, string) error{
						"error": failing("ContainerStatus", "p/c", errors.New("code = Unknown")),
						"hangs": hanging("ContainerStatus", "p/c", false, nil),
						"deaf":  hanging("ContainerStatus", "p/c", true, block),
					}[kind])
					defer b.run()()
					synctest.Wait()
					b.want("another pod", "q", "q/c=running", "q/s0=running")
					pass(900 * time.Millisecond)
					if _, err := b.Get("p"); err == nil {
						t.Error("the pod has a status")
					}
					pass(7 * time.Second)
					if _, err := b.Get("p"); err != nil {
						t.Error(err)
					}
					b.want("later", "p", want...)
					calls := b.statusCalls()
					pass(time.Minute)
					if got := b.statusCalls() - calls; got != 0 {
						t.Errorf("%d calls after it is believed gone", got)
					}
				})
			})
		}
	}
}

// R15: containers that are recalled only after the first list are read with the next one, and nothing older counts as new.
func TestRecalledAfterTheFirstList(t *testing.T) {
	for name, hidden := range map[string]func(id string) bool{
		"one container": partialLists["one container"], "all containers": partialLists["all containers"], "nothing": func(string) bool { return false },
	} {
		inVirtualTime(t, name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.pod("p", "c")
			b.hiding(hidden)
			b.relist()
			b.Recall("p", "p/c")
			b.Recall("gone", "gone/c")
			if s, err := b.Get("gone"); !errors.Is(err, ErrNotRead) {
				t.Errorf("%+v, %v", s, err)
			}
			after := b.Stamp()
			b.relist()
			b.want(name, "p", "p/c=running", "p/s0=running")
			if !b.isFresh("gone", after) || len(b.pods) != 1 {
				t.Errorf("%+v", b.Dump().Pods)
			}
		})
	}
}

// R15: a container stays recalled until a reading has settled it: one that failed has not, nor has one that began before.
func TestRecalledUntilItIsRead(t *testing.T) {
	for name, first := range map[string]func(b *bench){
		"a reading that failed": func(b *bench) {
			b.Recall("p", "p/c")
			b.hiding(func(string) bool { return false })
			b.fail(failing("ContainerStatus", "p/d", errors.New("not now")))
			b.relist()
			b.relist()
			b.fail(nil)
		},
		"a look that finds nothing new": func(b *bench) {
			b.relist()
			b.fail(func(_ context.Context, method, id string) error {
				if method == "ListContainers" && id == "p" {
					b.Recall("p", "p/c")
				}
				return nil
			})
			b.Refresh("p")
			var started sync.WaitGroup
			b.pump(b.t.Context(), &started)
			started.Wait()
		},
		"a reading under way": func(b *bench) {
			b.fail(func(_ context.Context, _, id string) error {
				if id == "p/d" {
					b.Recall("p", "p/c")
				}
				return nil
			})
			b.relist()
		},
	} {
		inVirtualTime(t, name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.pod("p", "c", "d")
			b.hiding(partialLists["one container"])
			first(b)
			b.hiding(partialLists["one container"])
			b.relist()
			b.want("partial list", "p", "p/c=running", "p/d=running", "p/s0=running")
		})
	}
}

// R7: a pod that lists lack as a whole is read by the IDs of its objects before it is believed gone; then slowly, its end is
// seen, and a list that shows it ends that.
func TestPodThatListsLack(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "c", "d"); b.pod("q", "c") }, func(b *bench) {
		for range 2 {
			b.hiding(func(id string) bool { return strings.HasPrefix(id, "p/") })
			pass(5 * time.Minute)
			b.expect("hidden")
			calls, after := b.statusCalls(), b.Stamp()
			pass(10 * time.Minute)
			if got := b.statusCalls() - calls; got > 33 {
				b.t.Errorf("%d status calls in 10 min, want a reading of 3 objects a minute", got)
			}
			b.want("hidden", "p", "p/c=running", "p/d=running", "p/s0=running")
			if !b.isFresh("p", after) {
				b.t.Error("not fresh")
			}
			b.container("p", "c", sExited)
			pass(70 * time.Second)
			b.expect("one ends", "p: Died [p/c]")
			b.hiding(func(string) bool { return false })
			b.container("p", "c", sRunning)
			pass(1100 * time.Millisecond)
			b.expect("listed again", "p: Started")
		}
		b.hiding(func(id string) bool { return strings.HasPrefix(id, "p/") })
		pass(time.Minute)
		b.remove("p")
		pass(70 * time.Second)
		b.expect("gone", "p: Died|Removed [p/s0 p/c p/d]")
		if len(b.pods) != 1 {
			b.t.Errorf("%+v", b.Dump().Pods)
		}
	})
}

// R7: a runtime without a proper answer for the objects of a pod that it has forgotten.
func TestForgottenPodThatCannotBeRead(t *testing.T) {
	for _, kind := range []string{"error", "hangs", "deaf"} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, Options{}, func(b *bench) { b.pod("p", "c"); b.pod("q", "c") }, func(b *bench) {
				block := make(chan struct{})
				defer close(block)
				status := func(hook func(method string) func(context.Context, string, string) error) func(context.Context, string, string) error {
					return func(ctx context.Context, method, id string) error {
						return errors.Join(hook("ContainerStatus")(ctx, method, id), hook("PodSandboxStatus")(ctx, method, id))
					}
				}
				b.fail(status(func(method string) func(context.Context, string, string) error {
					switch kind {
					case "error":
						return failing(method, "p/", errors.New("code = Unknown"))
					case "hangs":
						return hanging(method, "p/", false, nil)
					default:
						return hanging(method, "p/", true, block)
					}
				}))
				b.remove("p")
				pass(2900 * time.Millisecond)
				b.expect("lists have to agree")
				pass(8 * time.Second)
				b.expect("gone", "p: Died|Removed [p/s0 p/c]")
				calls := b.statusCalls()
				pass(time.Minute)
				if got := b.statusCalls() - calls; got != 0 || len(b.pods) != 1 {
					b.t.Errorf("%d calls, %+v", got, b.Dump().Pods)
				}
			})
		})
	}
}

// R7: while a pod is held, lists that lack it decide nothing, nor does a reading that was under way.
func TestHeldPodThatListsLack(t *testing.T) {
	for name, hold := range map[string]func(b *bench){
		"all the time": func(b *bench) { b.Hold("p") },
		"since the reading": func(b *bench) {
			held := false
			b.fail(func(_ context.Context, method, _ string) error {
				if method == "ContainerStatus" && !held {
					held = true
					b.Hold("p")
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(b *bench) { b.pod("p", "c") }, func(b *bench) {
				b.remove("p")
				hold(b)
				pass(time.Minute)
				b.expect("held")
				b.Release("p")
				pass(5 * time.Second)
				b.expect("released", "p: Died|Removed [p/s0 p/c]")
			})
		})
	}
}

// R7: a list that shows a pod while the objects that earlier lists lacked are looked for counts, not what was found of these.
func TestPodThatIsListedWhileItIsLookedFor(t *testing.T) {
	inBubble(t, Options{Period: 300 * time.Millisecond}, func(b *bench) { b.pod("p", "c") }, func(b *bench) {
		began := make(chan struct{})
		var once sync.Once
		b.fail(func(_ context.Context, method, id string) error {
			if method == "ContainerStatus" && id == "p/c" {
				once.Do(func() { close(began) })
				<-time.After(700 * time.Millisecond)
			}
			return nil
		})
		b.remove("p")
		<-began
		b.sandbox("p", 1, sReady, "10.0.0.2")
		for range 40 {
			pass(50 * time.Millisecond)
			if s, err := b.Get("p"); err == nil && len(s.Sandboxes) == 0 {
				b.t.Errorf("believed gone: %+v", s)
			}
		}
		synctest.Wait()
		if s, err := b.Get("p"); err != nil || len(s.Sandboxes) != 1 || s.Sandboxes[0].ID != "p/s1" {
			b.t.Errorf("%+v, %v", s, err)
		}
		b.expect("replaced", "p: Started|Died|Removed [p/s0 p/c]")
	})
}

// R15: random pods, records that are old or wrong, first lists with gaps, and status calls that fail. Nothing that the
// runtime has and the records know is ever missing from a pod's status, nothing of another pod is in it, and once the
// faults end, every pod is known as the runtime has it.
func TestRandomFirstLists(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			randomFirstLists(t, rand.New(rand.NewPCG(seed, i)))
		})
		if t.Failed() {
			t.Fatalf("seed %d, run %d", seed, i)
		}
	}
}

func randomFirstLists(t *testing.T, rng *rand.Rand) {
	b := newBench(t, Options{Inspections: 1 + rng.IntN(3)})
	h := &history{b: b, pods: map[types.UID][]moment{}}
	exists := map[types.UID][]string{} // containers that the records know
	for _, uid := range modelPods {
		if rng.IntN(4) == 0 {
			b.Recall(uid, string(uid)+"/x", string(uid)+"/y")
			continue // it was lost
		}
		b.sandbox(uid, 0, sReady, "10.0.0.1")
		for _, name := range []string{"x", "y", "z"}[:1+rng.IntN(3)] {
			state := sRunning
			if rng.IntN(3) == 0 {
				state = sExited
			}
			b.container(uid, name, state)
			if id := string(uid) + "/" + name; rng.IntN(4) > 0 {
				exists[uid] = append(exists[uid], id)
				b.Recall(uid, id)
			}
		}
		b.Recall(uid, "gone", string(modelPods[rng.IntN(len(modelPods))])+"/x")
	}
	hidden := map[string]bool{}
	for range rng.IntN(8) {
		hidden[string(modelPods[rng.IntN(len(modelPods))])+"/"+[]string{"s0", "x", "y", "z"}[rng.IntN(4)]] = true
	}
	whole := string(modelPods[rng.IntN(len(modelPods))])
	if rng.IntN(2) == 0 {
		for _, name := range []string{"s0", "x", "y", "z"} {
			hidden[whole+"/"+name] = true
		}
	}
	b.hiding(func(id string) bool { return hidden[id] })
	failing := map[string]bool{}
	for range rng.IntN(4) { // the faults of R7 and R15: less than three lists in a row
		failing[string(modelPods[rng.IntN(len(modelPods))])+"/"+[]string{"s0", "x", "y"}[rng.IntN(3)]] = true
	}
	var until time.Time
	hang := rng.IntN(2) == 0
	b.fail(func(ctx context.Context, method, id string) error {
		if !strings.HasSuffix(method, "Status") || !failing[id] || !time.Now().Before(until) {
			return nil
		}
		if hang {
			<-ctx.Done()
			return ctx.Err()
		}
		return runtime.ErrUnavailable
	})
	until = time.Now().Add(time.Duration(rng.IntN(1800)) * time.Millisecond)
	defer b.run()()
	check := func() {
		for _, uid := range modelPods {
			status, _ := b.Get(uid)
			if status == nil {
				continue
			}
			states := statesOf(status)
			for _, id := range exists[uid] {
				if !slices.ContainsFunc(states, func(s string) bool { return strings.HasPrefix(s, id+"=") }) {
					t.Errorf("%s is missing from %q", id, states)
				}
			}
			for _, s := range states {
				if !strings.HasPrefix(s, string(uid)+"/") {
					t.Errorf("%s has %s", uid, s)
				}
			}
		}
	}
	for range 40 {
		pass(100 * time.Millisecond)
		synctest.Wait()
		check()
	}
	b.hiding(func(string) bool { return false })
	pass(30 * time.Second) // a status call that hung took 10
	synctest.Wait()
	check()
	h.note()
	for _, uid := range modelPods {
		if got, want := strings.Join(b.states(uid), " "), h.now(uid); got != want {
			t.Errorf("%s is cached as %q, the runtime shows %q", uid, got, want)
		}
		if h.now(uid) == "" && b.pods[uid] != nil {
			t.Errorf("%s is gone and has a record: %+v", uid, b.Dump().Pods)
		}
	}
	if len(b.cache.outstanding) > 0 {
		t.Errorf("outstanding at the end: %+v", b.Dump().Pods)
	}
}
