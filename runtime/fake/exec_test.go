package fake_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// A command ends with its container, also if the clock steps over both ends at once.
func TestCommandEndsWithItsContainer(t *testing.T) {
	for _, step := range []time.Duration{time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, scripted(fake.Script{
				Exit: &fake.Exit{After: time.Second},
				Exec: func(fake.Exec) fake.ExecResult { return fake.ExecResult{Took: 10 * time.Second} },
			}))
			id := r.run(r.sandbox(), "app", 0)
			ended := make(chan error, 1)
			go func() {
				_, _, err := r.ExecSync(r.ctx, id, []string{"x"}, 0)
				ended <- err
			}()
			synctest.Wait()
			r.clock.Step(step)
			var exit *runtime.ExitError
			if err := <-ended; !errors.As(err, &exit) || exit.Code != 137 {
				t.Errorf("step %v: %v", step, err)
			}
		})
	}
}
