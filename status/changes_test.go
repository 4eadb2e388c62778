package status

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// told is a change, or an error, in short: a-2 is version 2 of pod a, a-2! its end.
func told(c Change, err error) string {
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%s-%d", c.UID, c.Version)
	if c.Forgotten {
		text += "!"
	}
	return text
}

// offer gives a pod this many new statuses.
func offer(t *testing.T, m *Manager, u types.UID, times int) {
	t.Helper()
	for range times {
		old, _ := m.Get(u)
		if err := m.SetPodStatus(newPod(uid(u)), v1.PodStatus{Phase: v1.PodRunning, Message: old.Message + "."}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestChangesTellWhatAGapHid: WA1: a reader that lags behind learns of the gap, and then, once, of
// every pod that changed, began a new life or is gone.
func TestChangesTellWhatAGapHid(t *testing.T) {
	m := NewManager(Options{History: 3})
	for _, u := range []types.UID{"b", "a", "gone", "again", "same"} {
		offer(t, m, u, 2)
	}
	next, stop := iter.Pull2(m.Changes(t.Context()))
	defer stop()
	read := func(n int) []string {
		var got []string
		for range n {
			c, err, ok := next()
			if !ok {
				t.Fatalf("ended after %v", got)
			}
			got = append(got, told(c, err))
		}
		return got
	}
	check := func(what string, want ...string) {
		t.Helper()
		if got := read(len(want)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("snapshot", "a-2", "again-2", "b-2", "gone-2", "same-2")
	offer(t, m, "a", 1)
	m.Forget("b")
	check("in step", "a-3", "b-3!")
	offer(t, m, "a", 4)
	m.Forget("gone")
	m.Forget("again")
	offer(t, m, "again", 2) // of the next life, which happens to have the same version
	offer(t, m, "new", 1)
	check("after a gap", ErrGap.Error(), "gone-2!", "a-7", "again-2", "new-1")
	offer(t, m, "new", 1)
	check("in step again", "new-2")
}

// TestChangesEnd: WA1: the changes end with their reader, its context or the manager, which first
// reports everything.
func TestChangesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewManager(Options{})
		run, stopManager := context.WithCancel(t.Context())
		managed := make(chan error)
		go func() { managed <- m.Run(run) }()
		offer(t, m, "a", 1)
		read := func(ctx context.Context, each func(c Change, err error) bool) <-chan []string {
			done := make(chan []string, 1)
			go func() {
				var got []string
				for c, err := range m.Changes(ctx) {
					got = append(got, told(c, err))
					if !each(c, err) {
						break
					}
				}
				done <- got
			}()
			synctest.Wait()
			return done
		}
		all := func(Change, error) bool { return true }
		ctx, cancel := context.WithCancel(t.Context())
		byContext := read(ctx, all)
		byReader := read(t.Context(), func(c Change, _ error) bool { return c.Version < 2 })
		byManager := read(t.Context(), all)
		slow := read(t.Context(), func(Change, error) bool { <-time.After(time.Hour); return true })
		cancel()
		synctest.Wait()
		offer(t, m, "a", 2)
		synctest.Wait()
		stopManager()
		if err := <-managed; err != nil {
			t.Error(err)
		}
		for _, test := range []struct {
			name string
			got  <-chan []string
			want []string
		}{
			{"its context", byContext, []string{"a-1"}},
			{"its reader", byReader, []string{"a-1", "a-2"}},
			{"the manager", byManager, []string{"a-1", "a-2", "a-3"}},
			{"the manager, before a slow reader", slow, []string{"a-1", "a-2", "a-3"}},
		} {
			if got := <-test.got; !slices.Equal(got, test.want) {
				t.Errorf("ended by %s: %v, want %v", test.name, got, test.want)
			}
		}
	})
}

// TestSlowReadersHoldNothingUp: WA1: 1,000 pods change a hundred times while a reader sleeps; it
// holds up no change, and what is kept for it is bounded by Options.History.
func TestSlowReadersHoldNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewManager(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		gaps, newest := 0, map[types.UID]uint64{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for c, err := range m.Changes(ctx) {
				if errors.Is(err, ErrGap) {
					gaps++
					continue
				}
				if newest[c.UID] = c.Version; c.Version == 1 {
					<-time.After(time.Minute)
				}
			}
		}()
		for range 100 {
			for i := range 1000 {
				offer(t, m, types.UID(fmt.Sprint("p", i)), 1)
			}
		}
		m.mu.Lock()
		kept := len(m.history.ring)
		m.mu.Unlock()
		if kept > 512 {
			t.Errorf("%d changes are kept", kept)
		}
		<-time.After(24 * time.Hour)
		cancel()
		<-done
		if gaps == 0 || len(newest) != 1000 {
			t.Errorf("%d gaps, %d pods", gaps, len(newest))
		}
		for u, v := range newest {
			if v != 100 {
				t.Errorf("%s: version %d is the newest it knows", u, v)
			}
		}
	})
}
