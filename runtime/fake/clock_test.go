package fake_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/runtime/fake"
)

// A clock that the CRI cannot tell apart from "never" is refused at once: otherwise a container that runs would look as if
// it had never been started.
func TestNewRefusesClocksBeforeTheCRIsTime(t *testing.T) {
	for _, tc := range []struct {
		at      time.Time
		refused bool
	}{
		{time.Time{}, true},
		{time.Unix(-1, 0), true},
		{time.Unix(0, 0), true},
		{time.Unix(0, 1), false},
		{start, false},
	} {
		t.Run(tc.at.String(), func(t *testing.T) {
			defer func() {
				said := recover()
				if refused := said != nil; refused != tc.refused || refused && !strings.Contains(fmt.Sprint(said), "Options.Clock") {
					t.Errorf("refused %v: %v", refused, said)
				}
			}()
			f := fake.New(fake.Options{Clock: testclock.NewFakeClock(tc.at), Images: []fake.Image{{Ref: image}}})
			r := &rig{T: t, Runtime: f, ctx: t.Context()}
			if s := r.status(r.run(r.sandbox(), "a", 0)); s.GetStartedAt() <= 0 {
				t.Errorf("started at %d", s.GetStartedAt())
			}
		})
	}
}
