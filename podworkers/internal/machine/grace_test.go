package machine

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// driven is a machine that gets one event after the other from a test.
type driven struct {
	*Machine
	t *testing.T
}

func drive(t *testing.T, config Config) driven {
	d := driven{New(config), t}
	d.do(Event{Kind: EventRun})
	return d
}

// do applies an event, dispatches, and returns the call that started last.
func (d driven) do(e Event) *Call {
	d.t.Helper()
	effects := d.Apply(&e, time.Second, func() float64 { return 0 }, nil)
	effects = d.Apply(&Event{Kind: EventDispatch}, time.Second, func() float64 { return 0 }, effects)
	var c *Call
	for _, effect := range effects {
		if effect.Kind == EffectStartCall {
			c = effect.Call
		}
	}
	return c
}

func (d driven) create(uid types.UID, attrs map[string]string) *Call {
	return d.do(Event{Kind: EventUpdate, Update: Update{Type: TypeCreate, Pod: makePod(uid, attrs)}})
}

func (d driven) explained(uid types.UID) Explanation {
	d.t.Helper()
	e, ok := d.Explain(uid)
	if !ok {
		d.t.Fatalf("%s is not known", uid)
	}
	return e
}

// TestOrphansHaveOneSecond: G8, whatever the kill asks for.
func TestOrphansHaveOneSecond(t *testing.T) {
	d := drive(t, Config{})
	five := int64(5)
	d.do(Event{Kind: EventUpdate, Update: Update{
		Type: TypeKill, Running: &runtime.Pod{UID: "a", Name: "a", Namespace: "default"}, Kill: &Kill{Grace: &five},
	}})
	if e := d.explained("a"); e.Grace != 1 || e.StopGrace != 1 {
		t.Errorf("grace %d, %d to stop, want 1", e.Grace, e.StopGrace)
	}
}

// TestWaitersKnowTheFormersGrace: IN2: a pod that waits for its name knows how long the pod
// that has it may take to stop.
func TestWaitersKnowTheFormersGrace(t *testing.T) {
	t.Run("its owner", func(t *testing.T) {
		d := drive(t, Config{})
		d.create("a", map[string]string{"static": "web", "spec": "100"})
		d.create("b", map[string]string{"static": "web", "spec": "7"})
		if e := d.explained("b"); e.Why != WhyNameTaken || e.FormerGrace != 100 {
			t.Errorf("%+v", e)
		}
	})
	others := func(uids ...types.UID) Observation {
		o := Observation{Known: true}
		for _, uid := range uids {
			running := &runtime.Pod{UID: uid, Name: "web", Namespace: "default"}
			o.Others = append(o.Others, Other{Running: running, Pod: makePod(uid, map[string]string{"static": "web", "spec": string(uid)})})
		}
		return o
	}
	for _, test := range []struct {
		name  string
		ready bool
		seen  []types.UID
		want  int64
	}{
		{"those that run", true, []types.UID{"50", "90", "20"}, 90},
		{"its own containers do not count", true, []types.UID{"50", "b"}, 50},
		{"nobody may end them yet", false, []types.UID{"50"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := drive(t, Config{Observe: true})
			d.create("b", map[string]string{"static": "web", "spec": "700"})
			seen := others(test.seen...)
			seen.SourcesReady = &test.ready
			d.do(Event{Kind: EventObserved, UID: "b", Observed: seen})
			if e := d.explained("b"); e.Why != WhyNameRunning || e.FormerGrace != test.want {
				t.Errorf("%+v, want %d", e, test.want)
			}
		})
	}
	t.Run("not of the one before", func(t *testing.T) {
		d := drive(t, Config{Observe: true})
		d.create("b", map[string]string{"static": "web", "spec": "700"})
		ready := true
		seen := others("50")
		seen.SourcesReady = &ready
		d.do(Event{Kind: EventObserved, UID: "b", Observed: seen})
		ready = false
		d.do(Event{Kind: EventUpdate, Update: Update{Type: TypeUpdate, Pod: makePod("b", map[string]string{"static": "web", "image": "new"})}})
		unknown := others("60")
		unknown.SourcesReady = &ready
		d.do(Event{Kind: EventObserved, UID: "b", Observed: unknown})
		if e := d.explained("b"); e.FormerGrace != 0 {
			t.Errorf("%+v", e)
		}
	})
}

// TestDeadlinesTellTheEnd: IN8: a setup that ends the pod may amend its statuses, unless an
// earlier decision to end the pod already does.
func TestDeadlinesTellTheEnd(t *testing.T) {
	says := func(reason string) func(*v1.PodStatus) { return func(s *v1.PodStatus) { s.Reason = reason } }
	for _, test := range []struct {
		name   string
		before bool
		amend  func(*v1.PodStatus)
		want   string
	}{
		{"a deadline", false, says("DeadlineExceeded"), "DeadlineExceeded"},
		{"an eviction came first", true, says("DeadlineExceeded"), "Evicted"},
		{"an eviction, and its containers tell", true, nil, "Evicted"},
		{"its containers tell", false, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := drive(t, Config{})
			setup := d.create("a", nil)
			if test.before {
				d.do(Event{Kind: EventUpdate, Update: Update{Type: TypeKill, Pod: makePod("a", nil), Kill: &Kill{StatusFunc: says("Evicted")}}})
			}
			stop := d.do(Event{Kind: EventDone, Call: setup, Result: Result{SyncResult: SyncResult{Terminal: true, Amend: test.amend}}})
			if stop == nil || stop.Phase != Terminating {
				t.Fatalf("%+v, want a stop", stop)
			}
			var status v1.PodStatus
			if stop.StatusFunc != nil {
				stop.StatusFunc(&status)
			}
			if status.Reason != test.want || (stop.StatusFunc != nil) != (test.want != "") {
				t.Errorf("told %q, want %q", status.Reason, test.want)
			}
		})
	}
}
