package pleg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// history is what a scripted runtime has shown of each pod, in order: each
// content with the stamp from which on it was true.
type history struct {
	b    *bench
	pods map[types.UID][]moment
}

type moment struct {
	from    runtime.Stamp
	content string
}

// note records the content of every pod as it is now.
func (h *history) note() {
	h.b.script.mu.Lock()
	now := map[types.UID][]string{}
	for id, s := range h.b.sandboxes {
		uid := types.UID(s.Metadata.Uid)
		now[uid] = append(now[uid], id+"="+cri.SandboxState(s.State).String())
	}
	for id, c := range h.b.containers {
		uid := h.b.owner[id]
		now[uid] = append(now[uid], id+"="+cri.ContainerState(c.State).String())
	}
	h.b.script.mu.Unlock()
	for _, uid := range modelPods {
		slices.Sort(now[uid])
		content := strings.Join(now[uid], " ")
		past := h.pods[uid]
		if len(past) == 0 || past[len(past)-1].content != content {
			h.pods[uid] = append(past, moment{h.b.Stamp(), content})
		}
	}
}

func (h *history) now(uid types.UID) string {
	past := h.pods[uid]
	return past[len(past)-1].content
}

// shown reports whether the runtime showed content at some moment after stamp.
func (h *history) shown(uid types.UID, content string, after runtime.Stamp) bool {
	past := h.pods[uid]
	for i, m := range past {
		if m.content == content && (i == len(past)-1 || past[i+1].from > after) {
			return true
		}
	}
	return false
}

var modelPods = []types.UID{"a", "b", "c"}

// Random histories of a runtime, read by every means there is, with failures:
// PI1, PI3, PI4, PI5, PI7, PI8, PI12, R5, R12, D8.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { runModel(t, rt) })
}

// hasty is the real clock without the one wait that a manual mode has.
type hasty struct{ clock.RealClock }

func (c hasty) NewTimer(d time.Duration) clock.Timer {
	if d == reportDelay {
		d = 0
	}
	return c.RealClock.NewTimer(d)
}

// unhurried returns the options of a model, which cannot run in virtual time (rapid): no reading that a busy machine makes slow
// runs into a limit.
func unhurried(o Options) Options {
	o.Inspections, o.ListTimeout, o.InspectTimeout, o.WriteOffAfter = 2, time.Hour, time.Hour, time.Hour
	return o
}

func runModel(t *testing.T, rt *rapid.T) {
	b := newBench(t, unhurried(Options{ConfirmVanished: -1, Clock: hasty{}}))
	h := &history{b: b, pods: map[types.UID][]moment{}}
	h.note()
	pod := func() types.UID { return rapid.SampledFrom(modelPods).Draw(rt, "pod") }
	told := map[types.UID][]object{} // what the subscriber has seen of each pod
	held := map[types.UID]int{}
	global := runtime.Stamp(0)

	quietRelist := func() {
		b.fail(nil)
		if err := b.Relist(t.Context()); err != nil {
			rt.Fatalf("relist: %v", err)
		}
		for _, uid := range modelPods {
			if held[uid] > 0 {
				continue
			}
			if got, want := strings.Join(b.states(uid), " "), h.now(uid); got != want {
				rt.Fatalf("PI1: %s is cached as %q, the runtime shows %q", uid, got, want)
			}
			if h.now(uid) == "" && b.cache.has(uid) {
				rt.Fatalf("PI4: %s is gone and has an entry", uid)
			}
		}
	}
	rt.Repeat(map[string]func(*rapid.T){
		"container": func(rt *rapid.T) {
			uid, name := pod(), rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "name")
			if h.now(uid) == "" {
				b.sandbox(uid, 0, sReady, "10.0.0.1")
			}
			states := []func(){
				func() { b.container(uid, name, sCreated) }, func() { b.container(uid, name, sRunning) },
				func() { b.container(uid, name, sExited) }, func() { b.remove(uid, name) },
			}
			states[rapid.IntRange(0, 3).Draw(rt, "state")]()
			h.note()
		},
		"sandbox": func(rt *rapid.T) {
			uid, n := pod(), rapid.IntRange(0, 1).Draw(rt, "attempt")
			if rapid.Bool().Draw(rt, "ready") {
				b.sandbox(uid, n, sReady, "10.0.0.1")
			} else {
				b.sandbox(uid, n, sNotReady, "")
			}
			h.note()
		},
		"vanish": func(*rapid.T) { b.remove(pod()); h.note() },
		"relist": func(*rapid.T) { quietRelist() },
		"unchanged": func(rt *rapid.T) {
			quietRelist()
			for _, uid := range modelPods {
				if held[uid] > 0 {
					return
				}
			}
			calls := b.statusCalls()
			quietRelist()
			if got := b.statusCalls(); got != calls {
				rt.Fatalf("PI12: %d calls for unchanged pods", got-calls)
			}
		},
		"failed list": func(rt *rapid.T) {
			before := b.Dump()
			b.fail(failing("ListContainers", "", errors.New("boom")))
			if err := b.Relist(t.Context()); err == nil {
				rt.Fatal("no error")
			}
			if after := b.Dump(); after.Global != before.Global || !slices.Equal(after.Pods, before.Pods) {
				rt.Fatalf("PI5: %+v became %+v", before, after)
			}
			b.fail(nil)
		},
		"failed inspection": func(rt *rapid.T) {
			b.fail(failing(rapid.SampledFrom([]string{"ContainerStatus", "PodSandboxStatus"}).Draw(rt, "method"), string(pod()), errors.New("boom")))
			b.relist()
			b.fail(nil)
		},
		"changes while being read": func(rt *rapid.T) {
			var once atomic.Bool
			victim := pod()
			b.fail(func(_ context.Context, method, id string) error {
				// No runtime makes an object a second time, so one that is gone stays gone.
				exists := func() bool {
					b.script.mu.Lock()
					defer b.script.mu.Unlock()
					return b.containers[string(victim)+"/x"] != nil
				}
				if method == "ContainerStatus" && strings.HasPrefix(id, string(victim)+"/") && exists() && once.CompareAndSwap(false, true) {
					b.container(victim, "x", sExited)
					h.note()
				}
				return nil
			})
			b.relist()
			b.fail(nil)
		},
		"read now": func(rt *rapid.T) {
			uid := pod()
			after := b.Stamp()
			s, err := b.ReadNow(t.Context(), uid)
			if err != nil || s.Stamp <= after || !h.shown(uid, strings.Join(statesOf(s), " "), after) {
				rt.Fatalf("ReadNow after %d: %v at %d, %v", after, statesOf(s), s.Stamp, err)
			}
		},
		"publish": func(rt *rapid.T) {
			s, err := b.view.Read(t.Context(), pod())
			if err != nil {
				rt.Fatal(err)
			}
			if rapid.Bool().Draw(rt, "late") {
				b.container(s.UID, "y", sRunning)
				h.note()
				quietRelist()
				if held[s.UID] == 0 && b.Publish(s) {
					rt.Fatalf("C7: a status older than T was taken")
				}
				return
			}
			b.Publish(s)
		},
		"refresh":   func(*rapid.T) { b.Refresh(pod()) },
		"reinspect": func(*rapid.T) { b.Reinspect(pod()) },
		"hold":      func(*rapid.T) { uid := pod(); b.Hold(uid); held[uid]++ },
		"release": func(rt *rapid.T) {
			if uid := pod(); held[uid] > 0 {
				b.Release(uid)
				held[uid]--
			}
		},
		"take": func(rt *rapid.T) {
			pending := map[types.UID]bool{}
			for _, e := range b.sub.Take() {
				pending[e.UID] = true
			}
			for _, uid := range modelPods {
				s, err := b.Get(uid)
				if s == nil && err != nil {
					s = &runtime.PodStatus{UID: uid}
				}
				now := statusObjects(s)
				if kinds, _ := deriveAll(told[uid], now); kinds&^changed != 0 && !pending[uid] {
					rt.Fatalf("PI3: %s went from %v to %v without a wake-up", uid, told[uid], now)
				}
				told[uid] = now
			}
		},
		"": func(rt *rapid.T) {
			d := b.Dump()
			if d.Global < global {
				rt.Fatalf("PI8: T went from %d to %d", global, d.Global)
			}
			global = d.Global
			after := b.Stamp()
			for _, uid := range modelPods {
				past := h.pods[uid]
				after = min(after, rapid.SampledFrom(past).Draw(rt, "after").from)
				if !b.isFresh(uid, after) {
					continue
				}
				s, err := b.GetNewerThan(t.Context(), uid, after)
				if err == nil && !h.shown(uid, strings.Join(statesOf(s), " "), after) {
					rt.Fatalf("PI7: %s newer than %d is %v, the runtime showed %v", uid, after, statesOf(s), past)
				}
			}
			if n := len(b.records) - b.dropped; n != len(b.pods) {
				rt.Fatalf("%d records for %d pods", n, len(b.pods))
			}
		},
	})
	for uid, n := range held {
		for range n {
			b.Release(uid)
		}
	}
	held = map[types.UID]int{}
	quietRelist()
	if fmt.Sprint(b.cache.outstanding) != "map[]" {
		rt.Fatalf("outstanding at the end: %v", b.cache.outstanding)
	}
}

// jumping is a clock that a test sets forward, without the one wait that a manual mode has.
type jumping struct {
	hasty
	ahead *time.Duration
}

func (c jumping) Now() time.Time                  { return time.Now().Add(*c.ahead) }
func (c jumping) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// TestModelOfMade: PI1, R7, C11, B14. Syncers make and remove objects under holds and tell of it, others
// remove them by hand, lists leave objects out, calls fail, time passes. Once all this ends, every pod is known as the
// runtime has it, and none stays outstanding.
func TestModelOfMade(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { runModelOfMade(t, rt) })
}

func runModelOfMade(t *testing.T, rt *rapid.T) {
	clock := jumping{ahead: new(time.Duration)}
	b := newBench(t, unhurried(Options{Clock: clock}))
	h := &history{b: b, pods: map[types.UID][]moment{}}
	number, held := 0, map[types.UID]int{}
	names := map[types.UID][]string{}
	pod := func() types.UID { return rapid.SampledFrom(modelPods).Draw(rt, "pod") }
	fault := func() { // of the next call or calls
		method := rapid.SampledFrom([]string{"", "", "ListPodSandbox", "ListContainers", "PodSandboxStatus", "ContainerStatus"}).Draw(rt, "fault")
		prefix := ""
		if strings.HasSuffix(method, "Status") {
			prefix = string(pod())
		}
		b.fail(failing(method, prefix, runtime.ErrUnavailable))
	}
	rt.Repeat(map[string]func(*rapid.T){
		"make": func(rt *rapid.T) {
			uid := pod()
			number++
			name, sandbox := fmt.Sprint("c", number), ""
			if rapid.Bool().Draw(rt, "sandbox") || len(names[uid]) == 0 {
				name = fmt.Sprint("s", number)
				b.sandbox(uid, number, sReady, "10.0.0.1")
			} else {
				sandbox = string(uid) + "/s0"
				b.container(uid, name, sRunning)
			}
			names[uid] = append(names[uid], name)
			if rapid.IntRange(0, 3).Draw(rt, "told") > 0 {
				b.Made(uid, string(uid)+"/"+name, sandbox)
			}
			if rapid.Bool().Draw(rt, "reported") {
				b.Report(uid, string(uid)+"/"+name, runtime.Running)
			}
		},
		"remove": func(rt *rapid.T) {
			uid := pod()
			if len(names[uid]) == 0 {
				return
			}
			name := rapid.SampledFrom(names[uid]).Draw(rt, "name")
			names[uid] = slices.DeleteFunc(names[uid], func(n string) bool { return n == name })
			b.remove(uid, name)
			if rapid.Bool().Draw(rt, "told") {
				b.Removed(uid, string(uid)+"/"+name)
			}
		},
		"vanish": func(*rapid.T) { uid := pod(); names[uid] = nil; b.remove(uid) },
		"hide": func(rt *rapid.T) {
			uid := string(pod())
			last := rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(rt, "last digit")
			b.hiding(func(id string) bool { return strings.HasPrefix(id, uid) && strings.HasSuffix(id, last) })
		},
		"show":    func(*rapid.T) { b.hiding(func(string) bool { return false }) },
		"relist":  func(*rapid.T) { fault(); _ = b.Relist(t.Context()); b.fail(nil) },
		"read":    func(*rapid.T) { fault(); _, _ = b.ReadNow(t.Context(), pod()); b.fail(nil) },
		"objects": func(*rapid.T) { fault(); _, _ = b.ReadObjects(t.Context(), pod()); b.fail(nil) },
		"refresh": func(*rapid.T) { b.Refresh(pod()) },
		"hold":    func(*rapid.T) { uid := pod(); b.Hold(uid); held[uid]++ },
		"release": func(rt *rapid.T) {
			if uid := pod(); held[uid] > 0 {
				b.Release(uid)
				held[uid]--
			}
		},
		"wait": func(rt *rapid.T) {
			*clock.ahead += time.Duration(rapid.IntRange(1, 90).Draw(rt, "seconds")) * time.Second
		},
	})
	for uid, n := range held {
		for range n {
			b.Release(uid)
		}
	}
	b.hiding(func(string) bool { return false })
	for range 8 {
		*clock.ahead += 2 * maxBackoff
		b.relist()
	}
	h.note()
	for _, uid := range modelPods {
		if got, want := strings.Join(b.states(uid), " "), h.now(uid); got != want {
			rt.Fatalf("PI1: %s is cached as %q, the runtime shows %q", uid, got, want)
		}
		if h.now(uid) == "" && b.pods[uid] != nil {
			rt.Fatalf("PI4: %s is gone and has a record: %+v", uid, b.Dump().Pods)
		}
	}
	if len(b.cache.outstanding) > 0 {
		rt.Fatalf("outstanding at the end: %+v", b.Dump().Pods)
	}
}
