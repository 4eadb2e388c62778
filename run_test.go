package podwright

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// stopsOf runs components of these names and stages, which serve until they are stopped,
// and returns the order in which they and the stages ended.
func stopsOf(t *testing.T, ctx context.Context, drains chan *drain, list []component) (order []string, err error) {
	t.Helper()
	var mu sync.Mutex
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	for i, c := range list {
		if c.run == nil {
			list[i].run = func(ctx context.Context) error {
				<-ctx.Done()
				note(c.name)
				return ctx.Err()
			}
		}
	}
	err = supervise(ctx, list, drains, func(s stage, d *drain) {
		what := "after " + [...]string{"input", "work", "records"}[s]
		if d != nil {
			what += " drained"
		}
		note(what)
	})
	return order, err
}

// Components stop stage by stage, each stage in the reverse order of the start.
func TestComponentsStopInReverseByStage(t *testing.T) {
	for name, test := range map[string]struct {
		list []component
		want string
	}{
		"in order":  {[]component{{name: "r", stop: stopRecords}, {name: "w", stop: stopWork}, {name: "i", stop: stopInput}}, "i, after input, w, after work, r, after records"},
		"backwards": {[]component{{name: "i", stop: stopInput}, {name: "w", stop: stopWork}, {name: "r", stop: stopRecords}}, "i, after input, w, after work, r, after records"},
		"several":   {[]component{{name: "w1", stop: stopWork}, {name: "i1"}, {name: "w2", stop: stopWork}, {name: "i2"}}, "i2, i1, after input, w2, w1, after work, after records"},
		"none":      {nil, "after input, after work, after records"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			go func() { synctest.Wait(); cancel() }()
			order, err := stopsOf(t, ctx, nil, test.list)
			if got := strings.Join(order, ", "); got != test.want || err != nil {
				t.Errorf("%s: %s (%v), want %s", name, got, err, test.want)
			}
		})
	}
}

// A drain stops the pods between the components that bring work and those that do it.
func TestDrainStopsPodsAfterInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drains := make(chan *drain)
		go func() { drains <- &drain{} }()
		order, err := stopsOf(t, t.Context(), drains, []component{{name: "w", stop: stopWork}, {name: "i"}})
		if got := strings.Join(order, ", "); got != "i, after input drained, w, after work drained, after records drained" || err != nil {
			t.Errorf("%s (%v)", got, err)
		}
	})
}

// The end of a component means what its entry says, and its error names it.
func TestEndOfAComponent(t *testing.T) {
	failure := errors.New("broken")
	for name, test := range map[string]struct {
		end  meaning
		err  error
		want string // of Run; "-" while it runs on
	}{
		"a fault without an error": {endIsFault, nil, "x ended unexpectedly"},
		"a fault":                  {endIsFault, failure, "x: broken"},
		"done":                     {endIsDone, nil, ""},
		"done with an error":       {endIsDone, failure, "x: broken"},
		"fine":                     {endIsFine, nil, "-"},
		"fine with an error":       {endIsFine, failure, "x: broken"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := "-"
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, err := stopsOf(t, ctx, nil, []component{
					{name: "other", stop: stopWork},
					{name: "x", end: test.end, run: func(context.Context) error { return test.err }},
				})
				if got = ""; err != nil {
					got = err.Error()
				}
			}()
			synctest.Wait()
			if got != test.want {
				t.Errorf("%s: %q, want %q", name, got, test.want)
			}
			cancel()
			<-done
		})
	}
}

// What a drain stops is no fault.
func TestDrainEndsComponents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drained := make(chan struct{})
		list := []component{{name: "w", stop: stopWork, run: func(context.Context) error { <-drained; return nil }}}
		drains := make(chan *drain)
		go func() { drains <- &drain{} }()
		err := supervise(t.Context(), list, drains, func(s stage, _ *drain) {
			if s == stopInput {
				close(drained)
				synctest.Wait()
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// Every component of an engine has a name of its own, and the records outlive all others:
// they start first and stop last.
func TestComponentsOfAnEngine(t *testing.T) {
	list := minimalEngine(t).components()
	var names []string
	for i, c := range list {
		if slices.Contains(names, c.name) || c.run == nil {
			t.Errorf("component %d %q: named twice or not runnable", i, c.name)
		}
		names = append(names, c.name)
		if i > 0 && c.stop > list[i-1].stop {
			t.Errorf("%s stops after %s, but starts after it too", c.name, list[i-1].name)
		}
	}
	if names[0] != "checkpoint" {
		t.Errorf("%s starts first, want the checkpoints", names[0])
	}
}
