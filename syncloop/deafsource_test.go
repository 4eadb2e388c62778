package syncloop

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
)

// deafSource ignores the end of its context until it is released.
type deafSource struct {
	release chan struct{}
	// late gets the result of its delivery after that.
	late chan error
}

func (deafSource) Name() string { return "deaf" }

func (s deafSource) Run(_ context.Context, deliver func(context.Context, []*v1.Pod) error) error {
	if err := deliver(context.Background(), []*v1.Pod{newPod("a", "a")}); err != nil {
		return err
	}
	<-s.release
	s.late <- deliver(context.Background(), nil)
	return nil
}

// TestDeafSourceDoesNotHoldTheEnd: IN6. A loop ends 5 s after its context even if a source goes on. It says
// which one, and takes nothing more from it. It waits for a source that returns in time.
func TestDeafSourceDoesNotHoldTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		logger := funcr.New(func(prefix, args string) { lines.WriteString(args + "\n") }, funcr.Options{})
		source, l := deafSource{make(chan struct{}), make(chan error, 1)}, &log{}
		loop, stop := run(t, l, Options{Sources: []Source{source}, Logger: logger})
		l.want(t, "the first set", "create a")
		began := time.Now()
		if err := stop(); err == nil || time.Since(began) != 5*time.Second {
			t.Errorf("ended with %v after %v", err, time.Since(began))
		}
		if got := lines.String(); !strings.Contains(got, "source deaf") || strings.Count(got, "goroutine is lost") != 1 {
			t.Errorf("log:\n%s", got)
		}
		close(source.release)
		if err := <-source.late; err == nil {
			t.Error("a set counts that came after the end")
		}
		if _, desired := loop.Store().Get("a"); !desired {
			t.Error("the loop took the set")
		}

		prompt := deafSource{make(chan struct{}), make(chan error, 1)}
		_, stop = run(t, l, Options{Sources: []Source{prompt}})
		synctest.Wait()
		time.AfterFunc(3*time.Second, func() { close(prompt.release) })
		began = time.Now()
		if _ = stop(); time.Since(began) != 3*time.Second {
			t.Errorf("ended after %v", time.Since(began))
		}
		<-prompt.late
	})
}

// TestSetOfAnEndedRunDoesNotCount: a source that delivers after its Run has returned gets an error,
// so that an old set never follows a newer one.
func TestSetOfAnEndedRunDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("api"), &log{}
		_, stop := run(t, l, Options{Sources: []Source{source}})
		defer stop()
		var stale func(context.Context, []*v1.Pod) error
		source.steps <- func(_ context.Context, deliver func(context.Context, []*v1.Pod) error) (bool, error) {
			stale = deliver
			return true, context.DeadlineExceeded
		}
		pass(2 * time.Second)
		source.set(newPod("a", "a"))
		l.want(t, "the second run", "create a")
		if err := stale(t.Context(), nil); err == nil {
			t.Error("no error")
		}
		l.want(t, "the set of the first run")
	})
}
