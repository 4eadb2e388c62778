package worklimit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func runtimeRules(limit int) Rules {
	return Rules{Limit: limit, LeastPatience: 2 * time.Second, MostPatience: 10 * time.Second, Opens: true}
}

// script drives a queue by words, and says after each line which calls are under way.
type script struct {
	t     *testing.T
	queue *Queue
	turns map[string]*Turn
	now   time.Time
}

// do carries out one line: ask NAME..., first NAME, answer NAME, leave NAME, after DURATION.
// It returns the names that may call now.
func (s *script) do(line string) string {
	words := strings.Fields(line)
	for _, name := range words[1:] {
		switch words[0] {
		case "ask", "first":
			// A name is a pod, and after a dot which of its calls it is.
			pod, _, _ := strings.Cut(name, ".")
			s.turns[name] = s.queue.Ask(s.now, Job{Pod: types.UID(pod), First: words[0] == "first", Place: s.now})
		case "answer", "leave":
			s.queue.End(s.now, s.turns[name], words[0] == "answer")
		case "after":
			d, err := time.ParseDuration(name)
			if err != nil {
				s.t.Fatal(err)
			}
			s.now = s.now.Add(d)
		default:
			s.t.Fatalf("unknown line %q", line)
		}
	}
	granted, _ := s.queue.Step(s.now)
	var names []string
	for _, g := range granted {
		for name, t := range s.turns {
			if t == g {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, " ")
}

// TestQueue: spec/runtime.md 24.
func TestQueue(t *testing.T) {
	for _, tc := range []struct {
		rule  string
		limit int
		lines []string // line, then after "->" who may call
	}{
		{"without a limit everybody goes", 0, []string{"ask a b c d e -> a b c d e"}},
		{"the limit holds while calls are answered, in order of arrival", 2, []string{
			"ask a b c d -> a b", "after 1s ->", "answer b -> c", "after 1s ->", "answer a -> d",
		}},
		{"restarts and critical pods go before others, in order of arrival", 1, []string{
			"ask a -> a", "ask b -> ", "first c -> ", "first d -> ", "answer a -> c", "answer c -> d", "answer d -> b",
		}},
		{"who leaves takes no turn", 1, []string{"ask a b c -> a", "leave b -> ", "answer a -> c", "leave c ->", "ask d -> d"}},
		{"an unanswered call keeps its slot for 2 s at first", 2, []string{
			"ask a -> a", "after 1s ->", "ask b c -> b", "after 999ms ->", "after 1ms -> c",
		}},
		{"where calls take long, for ten times as long", 2, []string{
			"ask s1 s2 -> s1 s2", "after 600ms ->", "answer s1 s2 -> ",
			"ask a b -> a b", "after 100ms ->", "ask c ->", "after 5899ms ->", "after 1ms -> c",
		}},
		{"for 10 s at most", 2, []string{
			"ask s1 s2 -> s1 s2", "after 1900ms ->", "answer s1 s2 -> ",
			"ask a b -> a b", "after 100ms ->", "ask c ->", "after 9899ms ->", "after 1ms -> c",
		}},
		{"a late answer says how long calls take", 1, []string{
			"ask s -> s", "after 4s ->", "answer s ->", "after 10s -> ", "ask a b -> a", "after 9999ms ->", "after 1ms -> b",
		}},
		{"but not one that is later than 10 s", 1, []string{
			"ask s -> s", "after 10s ->", "answer s ->", "after 10s -> ", "ask a b -> a", "after 1999ms ->", "after 1ms -> b",
		}},
		{"a late answer frees no second slot", 2, []string{
			"ask a -> a", "after 1s ->", "ask b c d -> b", "after 1s -> c", "answer a ->", "answer b -> d",
		}},
		{"the limit is lifted for 10 s when as many calls as there are slots were not answered", 2, []string{
			"ask a b c d e f g -> a b", "after 1999ms ->", "after 1ms -> c d e f g", "ask h -> h", "answer c d e f g h ->",
			"after 9999ms -> ", "ask i j k -> i j k", "answer i j k ->", "after 1ms ->", "ask l m n -> l m",
		}},
		{"also with answers in between", 2, []string{
			"ask a -> a", "after 1s ->", "ask b c d e f -> b", "answer b -> c", "after 1s -> d", "answer d -> e", "after 1s -> f", "ask g h -> g h",
		}},
		{"but not within more than 10 s", 2, []string{
			"ask a -> a", "after 2s ->", "ask x -> x", "answer x ->", "after 9s -> ", "ask b -> b", "after 1s ->", "ask c d -> c", "after 1s -> d",
		}},
		{"a pod whose call was not answered goes behind, with its next calls", 1, []string{
			"ask a -> a", "after 1s ->", "ask b c -> ", "after 1s -> b c", // lifted
			"leave a ->", "answer b c ->", "after 10s ->",
			"ask d -> d", "first a.2 ->", "ask e ->", "answer d -> e", "answer e -> a.2",
		}},
		{"pods that are behind share half of the slots", 4, []string{
			"ask a b c d -> a b c d", "after 2s ->", "ask x -> x", "answer x ->", "leave a b c d ->", "after 10s ->",
			"ask a.2 b.2 c.2 d.2 -> a.2 b.2", "ask e f g -> e f", "answer e -> g", "answer a.2 -> c.2",
		}},
		{"their missing answers do not lift the limit", 2, []string{
			"ask a b -> a b", "after 2s ->", "ask x -> x", "answer x ->", "leave a b ->", "after 10s ->",
			"ask a.2 b.2 -> a.2", "after 2s -> b.2", "after 2s -> ", "ask e f g -> e f",
		}},
		{"an answer in time brings a pod back", 2, []string{
			"ask a -> a", "after 2s ->", "ask x -> x", "answer x ->", "leave a ->",
			"ask a.2 -> a.2", "answer a.2 ->", "ask b -> b", "ask a.3 -> a.3",
		}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			s := &script{t: t, queue: NewQueue(runtimeRules(tc.limit)), turns: map[string]*Turn{}, now: epoch}
			for i, line := range tc.lines {
				do, want, _ := strings.Cut(line, "->")
				if got := s.do(do); got != strings.TrimSpace(want) {
					t.Fatalf("line %d, %q: %q may call, want %q", i, do, got, strings.TrimSpace(want))
				}
			}
		})
	}
}

// TestPodKeepsItsPlace: pods go in the order in which their starts began, not their calls,
// so that the first pods run while the last ones wait.
func TestPodKeepsItsPlace(t *testing.T) {
	q := NewQueue(runtimeRules(1))
	first := q.Ask(epoch, Job{Pod: "a", Place: epoch})
	q.Step(epoch)
	other := q.Ask(epoch.Add(1), Job{Pod: "b", Place: epoch.Add(1)})
	q.End(epoch.Add(2), first, true)
	next := q.Ask(epoch.Add(2), Job{Pod: "a", Place: epoch})
	if granted, _ := q.Step(epoch.Add(2)); len(granted) != 1 || granted[0] != next {
		t.Errorf("granted %v, want the second call of pod a before %v", granted, other)
	}
}

// TestEachMethodHasItsPatience: 24.3. Sandboxes take 3 s on this node, containers take 50 ms. That
// most calls are quick does not cost a sandbox its slot if it is made at its usual pace.
func TestEachMethodHasItsPatience(t *testing.T) {
	q, now := NewQueue(runtimeRules(2)), epoch
	call := func(pod, method string, takes time.Duration) {
		turn := q.Ask(now, Job{Pod: types.UID(pod), Call: method, Place: now})
		q.Step(now)
		now = now.Add(takes)
		q.End(now, turn, true)
	}
	for i := range 20 {
		pod := fmt.Sprint("pod-", i)
		call(pod, "RunPodSandbox", 3*time.Second)
		call(pod, "CreateContainer", 50*time.Millisecond)
		call(pod, "StartContainer", 50*time.Millisecond)
	}
	now = now.Add(time.Minute)
	began := now
	for i := range 3 {
		q.Ask(now, Job{Pod: types.UID(fmt.Sprint("new-", i)), Call: "RunPodSandbox", Place: now})
	}
	if granted, _ := q.Step(now); len(granted) != 2 {
		t.Fatalf("%d calls are made at once, want 2", len(granted))
	}
	if due, ok := q.Next(); !ok || due.Sub(began) != 10*time.Second {
		t.Errorf("a sandbox keeps its slot for %v, want 10 s: they take 3 s", due.Sub(began))
	}
	if _, taken := q.Step(now.Add(3 * time.Second)); taken != 0 {
		t.Errorf("%d slots were taken from calls that take as long as they usually do", taken)
	}
}

// TestRestartsStarveNoNewPod: 24.2. All the time as many restarts wait as the runtime can
// make: a new pod's turn still comes, after three of them.
func TestRestartsStarveNoNewPod(t *testing.T) {
	q, now := NewQueue(runtimeRules(1)), epoch
	restart := func() { q.Ask(now, Job{Pod: "crashing", First: true, Place: now}) }
	restart()
	granted, _ := q.Step(now)
	fresh := []*Turn{q.Ask(now, Job{Pod: "new-0", Place: now}), q.Ask(now, Job{Pod: "new-1", Place: now})}
	for i := range 8 {
		restart()
		restart()
		now = now.Add(100 * time.Millisecond)
		q.End(now, granted[0], true)
		if granted, _ = q.Step(now); len(granted) != 1 {
			t.Fatalf("%d calls at once", len(granted))
		}
		if want := i == 3 || i == 7; want != (granted[0] == fresh[i/4]) {
			t.Errorf("call %d is of pod %s", i, granted[0].Pod)
		}
	}
}

// TestQueueKeepsItsRules: 24.1 to 24.5, with calls that come, are answered, hang and leave at random:
// no more slots are in use than there are, except while the limit is lifted; pods that are behind
// never have more than half of them; no slot is free while a call that may have it waits; and once
// all are answered nothing is left.
func TestQueueKeepsItsRules(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		limit := 1 + random.IntN(6)
		q, now := NewQueue(runtimeRules(limit)), epoch
		var asked []*Turn
		for range 400 {
			switch n := random.IntN(10); {
			case n < 4:
				pod := random.IntN(12)
				asked = append(asked, q.Ask(now, Job{
					Pod: types.UID(fmt.Sprint(pod)), Call: fmt.Sprint(random.IntN(3)), First: random.IntN(3) == 0, Place: epoch.Add(time.Duration(pod)),
				}))
			case n < 7 && len(asked) > 0:
				i := random.IntN(len(asked))
				answered := asked[i].state != waiting && random.IntN(4) > 0
				q.End(now, asked[i], answered)
				asked = slices.Delete(asked, i, i+1)
			case n < 9:
				now = now.Add(time.Duration(random.IntN(300)) * time.Millisecond)
			default:
				now = now.Add(time.Duration(random.IntN(12)) * time.Second)
			}
			granted, _ := q.Step(now)
			lifted := now.Before(q.openUntil)
			behind := 0
			for _, turn := range q.working {
				if turn.behind {
					behind++
				}
			}
			switch {
			case len(q.working) > limit && !lifted && len(granted) > 0:
				t.Fatalf("seed %d: %d slots of %d", seed, len(q.working), limit)
			case behind != q.behind || behind > max(1, limit/2):
				t.Fatalf("seed %d: %d slots of %d are behind, counted %d", seed, behind, limit, q.behind)
			case len(q.waiting) > 0 && q.free(q.waiting[0], now):
				t.Fatalf("seed %d: a slot is free and a call waits", seed)
			case len(q.waiting)+len(q.working) > 0 && len(q.calls) != len(asked):
				t.Fatalf("seed %d: %d calls of %d", seed, len(q.calls), len(asked))
			}
			if due, ok := q.Next(); ok && !due.After(now) {
				t.Fatalf("seed %d: Step leaves something to do at %v", seed, due)
			}
		}
		for len(asked) > 0 {
			i := slices.IndexFunc(asked, func(turn *Turn) bool { return turn.state != waiting })
			if i < 0 {
				t.Fatalf("seed %d: %d calls wait for nothing", seed, len(asked))
			}
			q.End(now, asked[i], true)
			asked = slices.Delete(asked, i, i+1)
			q.Step(now)
		}
		if len(q.calls)+len(q.waiting)+len(q.working)+q.behind > 0 {
			t.Fatalf("seed %d: left over %+v", seed, q)
		}
	}
}

// TestHungCrowdDelaysAPodBriefly: whatever part of 1,000 pods hangs, wherever the good pod
// stands among them, its turn comes within 4 s.
func TestHungCrowdDelaysAPodBriefly(t *testing.T) {
	for _, limit := range []int{1, 4, 64} {
		for _, good := range []int{1, 10, 500, 999} {
			t.Run(fmt.Sprintf("limit %d, %d good", limit, good), func(t *testing.T) {
				q, now := NewQueue(runtimeRules(limit)), epoch
				isGood := map[*Turn]bool{}
				for i := range 1000 {
					turn := q.Ask(now, Job{Pod: types.UID(fmt.Sprint(i)), Place: now})
					isGood[turn] = (i*7919)%1000 >= 1000-good
				}
				left := good
				for left > 0 && now.Sub(epoch) <= 4*time.Second {
					granted, _ := q.Step(now)
					for _, turn := range granted {
						if isGood[turn] {
							q.End(now, turn, true)
							left--
						}
					}
					if len(granted) == 0 {
						now = now.Add(10 * time.Millisecond)
					}
				}
				if left > 0 {
					t.Errorf("%d good pods still wait after %v", left, now.Sub(epoch))
				}
			})
		}
	}
}

// TestForgottenPodIsNotBehind: a new life of a UID starts without the old one's delay, and
// nothing is kept of a pod that is gone.
func TestForgottenPodIsNotBehind(t *testing.T) {
	q := NewQueue(runtimeRules(2))
	turn := q.Ask(epoch, Job{Pod: "a"})
	q.Step(epoch)
	q.End(epoch.Add(2*time.Second), turn, false)
	if len(q.slow) != 1 {
		t.Fatal("a call that ran out of time is not remembered")
	}
	q.Forget("a")
	if len(q.slow) != 0 || len(q.calls) != 0 || len(q.working) != 0 || len(q.waiting) != 0 {
		t.Errorf("left over: %+v", q)
	}
	turn = q.Ask(epoch, Job{Pod: "a"})
	q.Step(epoch)
	q.Forget("a")
	q.Step(epoch.Add(time.Minute)) // the call of the pod that is gone is late
	q.End(epoch.Add(time.Hour), turn, true)
	if len(q.slow) != 0 {
		t.Errorf("left over: %v", q.slow)
	}

	old := q.Ask(epoch, Job{Pod: "a"})
	q.Step(epoch)
	q.Forget("a")
	q.slow["a"] = true // the pod is back, and its call was not answered in time
	q.End(epoch.Add(time.Millisecond), old, true)
	if !q.slow["a"] {
		t.Error("a call of the pod's former life speaks for the new one")
	}
}

// TestAnyLimit: a limit that is as good as none costs nothing.
func TestAnyLimit(t *testing.T) {
	q := NewQueue(runtimeRules(math.MaxInt))
	turns := []*Turn{q.Ask(epoch, Job{Pod: "a"}), q.Ask(epoch, Job{Pod: "b"})}
	if granted, _ := q.Step(epoch); len(granted) != 2 {
		t.Fatalf("%d calls may be made, want 2", len(granted))
	}
	late := epoch.Add(time.Minute)
	if _, taken := q.Step(late); taken != 2 {
		t.Errorf("%d slots were taken from calls without an answer, want 2", taken)
	}
	for _, turn := range turns {
		q.End(late, turn, true)
	}
}
