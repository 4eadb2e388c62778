package syncloop

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPassesRestWhileNothingHappens: B12. After 10 s without an input the housekeeper may skip
// passes. Any input ends that.
func TestPassesRestWhileNothingHappens(t *testing.T) {
	for _, test := range []struct {
		name string
		stir func(loop *Loop, source *scripted)
		want []time.Duration // from the input on
	}{
		{"nothing", func(*Loop, *scripted) {}, []time.Duration{14*time.Second + 10*ms}},
		{"a pod", func(_ *Loop, s *scripted) { s.set(newPod("a", "a")) }, every2s},
		{"a trigger", func(l *Loop, _ *scripted) { l.TriggerHousekeeping() }, append([]time.Duration{10 * ms}, shift(every2s, 10*ms)...)},
		{"the gate", func(l *Loop, _ *scripted) { l.GateChanged() }, every2s},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, l := newScripted("file"), &log{}
				p := &passes{begin: time.Now(), rest: 30 * time.Second}
				loop, stop := run(t, l, Options{Sources: []Source{source}, Housekeeper: p})
				defer stop()
				source.set()
				pass(26 * time.Second)
				if got, want := len(p.take()), 6; got != want {
					t.Fatalf("%d passes in the first 26 s, want %d: for 10 s after the last input", got, want)
				}
				p.from(time.Now())
				test.stir(loop, source)
				pass(16*time.Second + 20*ms)
				p.want(t, "from then on", test.want...)
			})
		})
	}
}

// every2s are the regular passes until 10 s have passed without an input.
var every2s = []time.Duration{2 * time.Second, 4 * time.Second, 6 * time.Second, 8 * time.Second, 10 * time.Second}

func shift(moments []time.Duration, by time.Duration) []time.Duration {
	out := make([]time.Duration, len(moments))
	for i, m := range moments {
		out[i] = m + by
	}
	return out
}

// TestHeldWorkKeepsPassesGoing: B12. The housekeeper skips no pass while work is held.
func TestHeldWorkKeepsPassesGoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		p := &passes{begin: time.Now(), rest: 30 * time.Second}
		closed := func() error { return errors.New("not now") }
		_, stop := run(t, l, Options{Sources: []Source{source}, Housekeeper: p, Gate: closed})
		defer stop()
		source.set(newPod("a", "a"))
		pass(time.Minute)
		if got := len(p.take()); got < 29 {
			t.Errorf("%d passes in a minute while a pod waits for the gate, want one every 2 s", got)
		}
	})
}

// TestPanickedPassDoesNotRest: B9, B12.
func TestPanickedPassDoesNotRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		p := &passes{begin: time.Now(), rest: 30 * time.Second, body: func(context.Context, func(func())) error { panic("bug") }}
		_, stop := run(t, l, Options{Sources: []Source{source}, Housekeeper: p})
		defer stop()
		source.set()
		pass(time.Minute)
		if got := len(p.take()); got < 29 {
			t.Errorf("%d passes in a minute that all panicked, want one every 2 s", got)
		}
	})
}
