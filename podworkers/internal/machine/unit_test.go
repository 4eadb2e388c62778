package machine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// L1: the same events, times and random numbers give the same effects.
func TestUnitSameEventsGiveSameEffects(t *testing.T) {
	trace := func() string {
		random := rand.New(rand.NewPCG(1, 2))
		jitter := rand.New(rand.NewPCG(3, 4))
		config := defaultConfig()
		config.Metrics = true
		m := New(config)
		var out strings.Builder
		var calls []*Call
		var now time.Duration
		for step := range 5000 {
			ev := Event{Kind: EventUpdate}
			uid := types.UID(fmt.Sprint("pod-", random.IntN(20)))
			switch random.IntN(10) {
			case 0:
				ev.Kind = EventRun
			case 1, 2, 3:
				ev.Update = Update{Type: UpdateType(random.IntN(4)), Pod: makePod(uid, nil)}
			case 4:
				ev.Update = Update{Type: TypeCreate, Pod: makePod(uid, map[string]string{"static": "web"})}
			case 5:
				ev.Kind = EventTick
				now += time.Duration(random.IntN(int(10 * time.Second)))
			case 6:
				if random.IntN(5) > 0 {
					continue
				}
				ev.Kind, ev.Known = EventSyncKnown, func(types.UID, PodSync) {}
				for i := range random.IntN(20) {
					ev.Desired = append(ev.Desired, makePod(types.UID(fmt.Sprint("pod-", i)), nil))
				}
			default:
				if len(calls) == 0 {
					continue
				}
				i := random.IntN(len(calls))
				ev.Kind, ev.Call = EventDone, calls[i]
				if random.IntN(2) > 0 {
					ev.Result.Err = errTest
				}
				calls = slices.Delete(calls, i, i+1)
			}
			fx := m.Apply(&ev, now, jitter.Float64, nil)
			fx = m.Apply(&Event{Kind: EventDispatch}, now, jitter.Float64, fx)
			for _, e := range fx {
				fmt.Fprintf(&out, "%d %d %s %d %d %v %v\n", step, e.Kind, e.UID, e.Cause, e.Why, e.At, e.Value)
				if e.Kind == EffectStartCall {
					calls = append(calls, e.Call)
				}
			}
		}
		return out.String()
	}
	first := trace()
	if strings.Count(first, "\n") < 5000 {
		t.Errorf("only %d effects", strings.Count(first, "\n"))
	}
	for range 5 {
		if trace() != first {
			t.Fatal("a second run had other effects")
		}
	}
}

// The history keeps 50 entries, packs them, and counts repetitions.
func TestUnitHistoryKeepsFiftyEntries(t *testing.T) {
	for _, at := range []time.Duration{0, time.Millisecond, time.Hour, 30 * 365 * 24 * time.Hour} {
		e := newEntry(at, Finished, Queued, reasons-1)
		if e.at() != at || e.from() != Finished || e.to() != Queued || e.why() != reasons-1 || e.count() != 1 {
			t.Errorf("entry at %v: %v %v %v %v %v", at, e.at(), e.from(), e.to(), e.why(), e.count())
		}
	}
	for why := range reasons {
		if why.String() == "" {
			t.Errorf("reason %d has no name", why)
		}
	}
	m := New(Config{})
	r := &record{uid: "a"}
	for i := range 300 {
		m.now = time.Duration(i) * time.Second
		m.note(r, reasonSetupOK)
	}
	if len(r.history) != 2 || r.history[1].count() != 255 || r.history[1].at() != time.Second {
		t.Errorf("repetitions: %d entries, %d times", len(r.history), r.history[len(r.history)-1].count())
	}
	for i := range 100 {
		m.now = time.Duration(1000+i) * time.Second
		m.note(r, []Reason{reasonSetupOK, reasonBlocked}[i%2])
	}
	if len(r.history) != maxHistory {
		t.Fatalf("%d entries", len(r.history))
	}
	for i, e := range r.history {
		if want := time.Duration(1050+i) * time.Second; e.at() != want {
			t.Errorf("entry %d at %v, want %v", i, e.at(), want)
		}
	}
}

// The heap returns the records in order of time, then UID, whatever was moved
// and removed in between (syncloop.md W1, W2, edge case 34).
func TestUnitTimersFireInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		var h timers
		var all []*record
		for i := range 30 {
			r := &record{uid: types.UID(fmt.Sprintf("%02d", i))}
			all = append(all, r)
			h.set(r, time.Duration(random.IntN(20)))
		}
		for range 60 {
			r := all[random.IntN(len(all))]
			switch {
			case random.IntN(3) > 0:
				h.set(r, time.Duration(random.IntN(20)))
			case r.dueSlot > 0:
				h.remove(r)
			}
		}
		var want, got []string
		for _, r := range all {
			if r.dueSlot > 0 {
				want = append(want, fmt.Sprintf("%02d %s", r.due, r.uid))
			}
		}
		slices.Sort(want)
		for len(h.heap) > 0 {
			r := h.heap[0].rec
			got = append(got, fmt.Sprintf("%02d %s", r.due, r.uid))
			h.remove(r)
			if rest := h.heap[:cap(h.heap)][len(h.heap)]; rest.rec != nil {
				t.Fatal("the heap keeps a removed record alive")
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("order %v, want %v", got, want)
		}
	}
}

// The queue keeps the order of arrival, and can remove any record.
func TestUnitQueueKeepsTheOrderOfArrival(t *testing.T) {
	var q queue
	var all []*record
	for i := range 5 {
		r := &record{uid: types.UID(fmt.Sprint(i))}
		all = append(all, r)
		q.push(r)
	}
	for _, i := range []int{2, 0, 4} {
		q.remove(all[i])
		if all[i].next != nil || all[i].prev != nil {
			t.Errorf("%d keeps its neighbours", i)
		}
	}
	q.push(all[2])
	var got []string
	for r := q.head; r != nil; r = r.next {
		got = append(got, string(r.uid))
	}
	if fmt.Sprint(got) != "[1 3 2]" || q.tail != all[2] {
		t.Errorf("queue %v", got)
	}
}

// L4: a dispatch starts ready records in order of arrival, up to its limit. Calls that wait
// for their view do not count.
func TestUnitDispatchKeepsItsLimit(t *testing.T) {
	config := defaultConfig()
	config.Views = true
	m := New(config)
	apply := func(ev *Event) (started []string, calls []*Call) {
		for _, e := range m.Apply(ev, 0, noJitter, nil) {
			if e.Kind == EffectStartCall {
				started, calls = append(started, string(e.UID)), append(calls, e.Call)
			}
		}
		return started, calls
	}
	for _, uid := range []types.UID{"d", "c", "b", "a"} {
		apply(&Event{Kind: EventUpdate, Update: Update{Type: TypeCreate, Pod: makePod(uid, nil)}})
	}
	if started, _ := apply(&Event{Kind: EventDispatch}); started != nil || m.Waiting() {
		t.Errorf("started before the workers run: %v", started)
	}
	apply(&Event{Kind: EventRun})
	started, calls := apply(&Event{Kind: EventDispatch, Limit: 2})
	if fmt.Sprint(started) != "[d c]" || !m.Waiting() || m.Calling() != 2 {
		t.Errorf("started %v, %d run", started, m.Calling())
	}
	if again, _ := apply(&Event{Kind: EventDispatch, Limit: 2}); again != nil {
		t.Errorf("started %v beyond the limit", again)
	}
	apply(&Event{Kind: EventStale, Call: calls[0]})
	if started, _ := apply(&Event{Kind: EventDispatch, Limit: 2}); fmt.Sprint(started) != "[b]" || m.Calling() != 2 || m.InFlight() != 3 {
		t.Errorf("started %v, %d run, %d are in flight", started, m.Calling(), m.InFlight())
	}
	if started, _ := apply(&Event{Kind: EventDispatch}); fmt.Sprint(started) != "[a]" || m.Waiting() {
		t.Errorf("without a limit: %v", started)
	}
	apply(&Event{Kind: EventUpdate, Update: Update{Type: TypeCreate, Pod: makePod("e", nil)}})
	apply(&Event{Kind: EventStop, Stop: Stop{Mode: StopDetach}})
	if started, _ := apply(&Event{Kind: EventDispatch}); started != nil || m.Waiting() {
		t.Errorf("started %v after a stop", started)
	}
}

// L5, section 12: the pauses, without jitter.
func TestUnitBackOffDoubles(t *testing.T) {
	m := New(defaultConfig())
	for _, test := range []struct {
		phase    Phase
		failures uint8
		want     time.Duration
	}{
		{Setup, 1, 1},
		{Setup, 2, 2},
		{Setup, 3, 4},
		{Setup, 9, 256},
		{Setup, 10, 300},
		{Setup, 255, 300},
		{Terminating, 1, 1},
		{Terminating, 4, 8},
		{Terminating, 5, 10},
		{TerminatingRuntime, 5, 10},
		{Terminated, 200, 10},
	} {
		if got := m.backOff(test.phase, test.failures); got != test.want*time.Second {
			t.Errorf("%v after %d failures: %v, want %v", test.phase, test.failures, got, test.want*time.Second)
		}
	}
	m.rand = func() float64 { return 0.5 }
	if got := m.jittered(8 * time.Second); got != 10*time.Second {
		t.Errorf("8 s with half of the jitter: %v", got)
	}
}

// Section 12: resyncs keep the range of the jitter, and many pods share a moment.
func TestUnitResyncsShareMoments(t *testing.T) {
	for _, every := range []time.Duration{time.Minute, 10 * time.Minute, time.Second, 7, 1} {
		config := defaultConfig()
		config.SyncFrequency = every
		m := New(config)
		jitter := rand.New(rand.NewPCG(1, 2))
		m.rand = jitter.Float64
		moments := map[time.Duration]bool{}
		for range 1000 {
			m.now += time.Duration(jitter.Int64N(int64(every)))/100 + 1
			pause := m.regular()
			if pause < every || pause > every+every/2 {
				t.Fatalf("%v from %v on, want [%v, %v)", pause, m.now, every, every+every/2)
			}
			moments[m.now+pause] = true
		}
		// The thousand pods came within about 5 periods, so their resyncs are within 6.
		if got := len(moments); every > 12 && got > 7*resyncSlots {
			t.Errorf("every %v: %d moments for a thousand resyncs", every, got)
		}
	}
}

// The number of failures stays at its limit instead of starting over.
func TestUnitFailuresStayAtTheirLimit(t *testing.T) {
	w := newWorld(defaultConfig(), "a")
	mustRun(t, w)
	if _, err := w.update(Update{Type: TypeCreate, Pod: makePod("a", nil)}); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		must(t)(w.take("a"))
		must(t)(w.done("a", Result{Err: errTest}))
		must(t)(w.elapse("a"))
	}
	if e, _ := w.m.Explain("a"); e.Attempts != 255 || !errors.Is(e.LastErr, errTest) {
		t.Errorf("%d failures, %v", e.Attempts, e.LastErr)
	}
	must(t)(w.take("a"))
	must(t)(w.done("a", Result{}))
	if e, _ := w.m.Explain("a"); e.Attempts != 0 || e.LastErr != nil {
		t.Errorf("after a success: %d failures, %v", e.Attempts, e.LastErr)
	}
}

// A schedule that was dropped is no longer given as a reason to wait.
func TestUnitUnscheduledReasonIsForgotten(t *testing.T) {
	w := newWorld(defaultConfig(), "a")
	mustRun(t, w)
	if _, err := w.update(Update{Type: TypeCreate, Pod: makePod("a", nil)}); err != nil {
		t.Fatal(err)
	}
	must(t)(w.take("a"))
	must(t)(w.done("a", Result{}))
	if e, _ := w.m.Explain("a"); !e.Scheduled || e.Why != WhyResync {
		t.Fatalf("after a success: scheduled %v, why %v", e.Scheduled, e.Why)
	}
	if _, err := w.update(Update{Type: TypeUpdate, Pod: makePod("a", nil)}); err != nil {
		t.Fatal(err)
	}
	if e, _ := w.m.Explain("a"); e.Scheduled || e.Due != 0 || e.Why != WhyNothing {
		t.Errorf("after an update: scheduled %v for %v, why %v", e.Scheduled, e.Due, e.Why)
	}
}

func mustRun(t *testing.T, w *world) {
	t.Helper()
	if err := w.apply(&Event{Kind: EventRun}); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T) func(bool, error) {
	return func(ok bool, err error) {
		t.Helper()
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
}

// An idle pod keeps only what it needs.
func TestUnitIdleRecordIsSmall(t *testing.T) {
	w := newWorld(defaultConfig(), "a")
	mustRun(t, w)
	pod := makePod("a", nil)
	ch := make(chan struct{})
	if _, err := w.update(Update{Type: TypeKill, Pod: pod, Kill: &Kill{Completion: Completion{Ch: ch}, StatusFunc: status("x")}}); err != nil {
		t.Fatal(err)
	}
	must(t)(w.take("a"))
	must(t)(w.done("a", Result{}))
	r := w.m.records["a"]
	if r.rare != nil || r.call != nil || cap(r.history) > 4 {
		t.Errorf("the record keeps %v %v, history of %d", r.rare, r.call, cap(r.history))
	}
	for name, keep := range map[string]*rare{
		"completions": {completions: []Completion{{}}}, "status": {statusFunc: status("x")}, "name": {fullName: "x"},
		"observation": {observation: &Observation{}}, "panics": {panics: 1}, "wanted again": {wantedAt: 1},
	} {
		r.rare = keep
		if r.shrink(); r.rare == nil {
			t.Errorf("%s are lost", name)
		}
	}
	r.rare = nil
	r.shrink()
}

// The result of a second kill with the same channel is filled in before the
// channel is closed (Q5).
func TestUnitOutcomeComesBeforeClose(t *testing.T) {
	w := newWorld(defaultConfig(), "a")
	mustRun(t, w)
	ch := make(chan struct{})
	var outcomes [4]KillOutcome
	for i := range 3 {
		u := Update{Type: TypeKill, Pod: makePod("a", nil), Kill: &Kill{Completion: Completion{Ch: ch, Outcome: &outcomes[i]}}}
		if _, err := w.update(u); err != nil {
			t.Fatal(err)
		}
	}
	// A completion may also be an outcome alone, or nothing.
	for _, c := range []Completion{{Outcome: &outcomes[3]}, {}} {
		if _, err := w.update(Update{Type: TypeKill, Pod: makePod("a", nil), Kill: &Kill{Completion: c}}); err != nil {
			t.Fatal(err)
		}
	}
	must(t)(w.take("a"))
	must(t)(w.done("a", Result{}))
	var order []string
	for _, e := range w.fx {
		if e.Kind == EffectCloseCompletion {
			for i := range outcomes {
				if e.Completion.Outcome == &outcomes[i] {
					order = append(order, fmt.Sprintf("%v %v", i, e.Completion.Ch != nil))
				}
			}
		}
	}
	if !slices.Equal(order, []string{"2 false", "1 false", "0 true", "3 false"}) {
		t.Errorf("order %v", order)
	}
}

// When a completion ends with the stop, the last error says what went wrong before.
func TestUnitStopKeepsTheLastError(t *testing.T) {
	w := newWorld(defaultConfig(), "a")
	mustRun(t, w)
	if _, err := w.update(Update{Type: TypeKill, Pod: makePod("a", nil), Kill: &Kill{Completion: Completion{Ch: make(chan struct{})}}}); err != nil {
		t.Fatal(err)
	}
	must(t)(w.take("a"))
	must(t)(w.done("a", Result{Err: errTest}))
	if err := w.apply(&Event{Kind: EventStop}); err != nil {
		t.Fatal(err)
	}
	for _, e := range w.fx {
		if e.Kind == EffectCloseCompletion && e.Completed != KillStopped {
			t.Error(e.Completed)
		}
	}
	if !w.m.Idle() {
		t.Error("not idle")
	}
	if e, _ := w.m.Explain("a"); !errors.Is(e.LastErr, errTest) {
		t.Error(e.LastErr)
	}
}

// NextDue returns the earliest schedule.
func TestUnitNextDueIsTheEarliest(t *testing.T) {
	w := newWorld(defaultConfig(), "a")
	mustRun(t, w)
	if _, ok := w.m.NextDue(); ok {
		t.Error("something is due")
	}
	if _, err := w.update(Update{Type: TypeCreate, Pod: makePod("a", nil)}); err != nil {
		t.Fatal(err)
	}
	must(t)(w.take("a"))
	must(t)(w.done("a", Result{}))
	if due, ok := w.m.NextDue(); !ok || due != time.Minute {
		t.Errorf("due at %v, %v", due, ok)
	}
}

// Section 12: an equal spec does not count as changed; a generation decides if
// there is one.
func TestUnitEqualSpecIsNoChange(t *testing.T) {
	pod := func(generation int64, image string) *v1.Pod {
		p := makePod("a", map[string]string{"image": image})
		p.Generation = generation
		return p
	}
	same := pod(0, "v1")
	for i, test := range []struct {
		before, after *v1.Pod
		want          bool
	}{
		{nil, pod(0, "v1"), false},
		{pod(0, "v1"), nil, false},
		{same, same, false},
		{pod(0, "v1"), pod(0, "v1"), false},
		{pod(0, "v1"), pod(0, "v2"), true},
		{pod(1, "v1"), pod(1, "v2"), false},
		{pod(1, "v1"), pod(2, "v1"), true},
		{pod(0, "v1"), pod(1, "v1"), true},
		{pod(1, "v1"), pod(0, "v1"), true},
	} {
		if got := specChanged(test.before, test.after); got != test.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
}

// Events about pods that are not known, or not in the right step, change nothing.
func TestUnitStrayEventsChangeNothing(t *testing.T) {
	w := newWorld(defaultConfig(), "a")
	mustRun(t, w)
	if _, err := w.update(Update{Type: TypeCreate, Pod: makePod("a", nil)}); err != nil {
		t.Fatal(err)
	}
	must(t)(w.take("a"))
	if _, err := w.update(Update{Type: TypeCreate, Pod: makePod("b", nil)}); err != nil {
		t.Fatal(err)
	}
	for _, ev := range []Event{
		{Kind: EventTake, UID: "x"},
		{Kind: EventTake, UID: "a"},
		{Kind: EventObserved, UID: "x"},
		{Kind: EventObserved, UID: "a"},
		{Kind: EventObserved, UID: "b"},
		{Kind: EventStale, Call: &Call{UID: "x"}},
		{Kind: EventStale, Call: &Call{UID: "a"}},
		{Kind: EventViewReady, Call: &Call{UID: "x"}},
		{Kind: EventViewReady, Call: w.life("a").call},
		{Kind: EventDone, Call: &Call{UID: "x"}},
		{Kind: EventDone, Call: &Call{UID: "a"}},
	} {
		if err := w.apply(&ev); err != nil || len(w.fx) > 0 {
			t.Errorf("event %d of %s%s: %v, %v", ev.Kind, ev.UID, callUID(ev.Call), w.fx, err)
		}
	}
	if err := w.apply(&Event{Kind: EventStop}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.take("b"); err != nil {
		t.Fatal(err)
	}
	if err := w.apply(&Event{Kind: EventTake, UID: "b"}); err != nil || len(w.fx) > 0 {
		t.Errorf("take after the stop: %v, %v", w.fx, err)
	}
}

func callUID(c *Call) types.UID {
	if c == nil {
		return ""
	}
	return c.UID
}
