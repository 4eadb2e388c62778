package lifecycle

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request ends a run.
type request struct{}

// stopsOf runs components of these names and stages, which serve until they are stopped,
// and returns the order in which they and the stages ended.
func stopsOf(t *testing.T, ctx context.Context, drains chan *request, list []Component) (order []string, err error) {
	t.Helper()
	var mu sync.Mutex
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	for i, c := range list {
		if c.Run == nil {
			list[i].Run = func(ctx context.Context) error {
				<-ctx.Done()
				note(c.Name)
				return ctx.Err()
			}
		}
	}
	err = Run(ctx, list, drains, unwatched, func(s Stage, d *request) {
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
		list []Component
		want string
	}{
		"in order":  {[]Component{{Name: "r", Stop: Records}, {Name: "w", Stop: Work}, {Name: "i", Stop: Input}}, "i, after input, w, after work, r, after records"},
		"backwards": {[]Component{{Name: "i", Stop: Input}, {Name: "w", Stop: Work}, {Name: "r", Stop: Records}}, "i, after input, w, after work, r, after records"},
		"several":   {[]Component{{Name: "w1", Stop: Work}, {Name: "i1"}, {Name: "w2", Stop: Work}, {Name: "i2"}}, "i2, i1, after input, w2, w1, after work, after records"},
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
		drains := make(chan *request)
		go func() { drains <- &request{} }()
		order, err := stopsOf(t, t.Context(), drains, []Component{{Name: "w", Stop: Work}, {Name: "i"}})
		if got := strings.Join(order, ", "); got != "i, after input drained, w, after work drained, after records drained" || err != nil {
			t.Errorf("%s (%v)", got, err)
		}
	})
}

// The end of a component means what its entry says, and its error names it.
func TestEndOfAComponent(t *testing.T) {
	failure := errors.New("broken")
	for name, test := range map[string]struct {
		end  Meaning
		err  error
		want string // of Run; "-" while it runs on
	}{
		"a fault without an error": {Fault, nil, "x ended unexpectedly"},
		"a fault":                  {Fault, failure, "x: broken"},
		"done":                     {Done, nil, ""},
		"done with an error":       {Done, failure, "x: broken"},
		"fine":                     {Fine, nil, "-"},
		"fine with an error":       {Fine, failure, "x: broken"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := "-"
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, err := stopsOf(t, ctx, nil, []Component{
					{Name: "other", Stop: Work},
					{Name: "x", End: test.end, Run: func(context.Context) error { return test.err }},
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
		list := []Component{{Name: "w", Stop: Work, Run: func(context.Context) error { <-drained; return nil }}}
		drains := make(chan *request)
		go func() { drains <- &request{} }()
		err := Run(t.Context(), list, drains, unwatched, func(s Stage, _ *request) {
			if s == Input {
				close(drained)
				synctest.Wait()
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// unwatched does not look at how long a component takes to stop.
func unwatched(string) (done func()) { return func() {} }

// TestSkippedComponentsSeeTheEnd: in place of a run, each component is called once, with a context that has ended.
func TestSkippedComponentsSeeTheEnd(t *testing.T) {
	var seen []error
	note := func(ctx context.Context) error {
		seen = append(seen, ctx.Err())
		return errors.New("it has run already")
	}
	Skip(t.Context(), note, note)
	if len(seen) != 2 || !errors.Is(seen[0], context.Canceled) || !errors.Is(seen[1], context.Canceled) {
		t.Errorf("called with %v", seen)
	}
}
