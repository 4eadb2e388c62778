package watchtest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func limits() Limits {
	return Limits{Clock: clock.RealClock{}, Body: time.Hour, Cleanup: time.Hour, Subject: "the subject"}
}

// Clean-ups follow the body, last registered first, and precede those of the test.
func TestCleanupsFollowTheBody(t *testing.T) {
	var order []string
	t.Run("case", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			t.Cleanup(func() { order = append(order, "test") })
			Run(t, limits(), func(w *T) {
				w.Cleanup(func() { order = append(order, "first") })
				w.Cleanup(func() { order = append(order, "second") })
				order = append(order, "body")
			})
		})
	})
	if want := []string{"body", "second", "first", "test"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

// A body that skips ends its caller, after its clean-ups, as a skip on the test's own
// goroutine would.
func TestSkipEndsTheCaller(t *testing.T) {
	var skipped, cleaned, went bool
	t.Run("case", func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		Run(t, limits(), func(w *T) {
			w.Cleanup(func() { cleaned = true })
			w.Skipf("no %s", "reason")
		})
		went = true
	})
	if !skipped || !cleaned || went {
		t.Errorf("skipped %v, cleaned %v, caller went on %v", skipped, cleaned, went)
	}
}

// A panic of the body reaches the test's goroutine, with the place where it happened.
func TestPanicReachesTheTest(t *testing.T) {
	defer func() {
		text, _ := recover().(string)
		if !strings.Contains(text, t.Name()) || !strings.Contains(text, "boom") || !strings.Contains(text, "watchtest.explode") {
			t.Errorf("panic %q", text)
		}
	}()
	Run(t, limits(), explode)
}

// The context of a body ends first; a body that heeds it is not left behind.
func TestContextEndsBeforeTheBodyIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		RunContext(t, limits(), func(ctx context.Context, _ *T) { <-ctx.Done() })
		if took := time.Since(began); took != time.Hour {
			t.Errorf("the context ended after %v", took)
		}
	})
}

func explode(*T) { panic("boom") }

// A body that was left behind ends at its next report, which its test no longer sees.
func TestBodyLeftBehindEndsAtItsNextReport(t *testing.T) {
	for name, report := range map[string]func(w *T){
		"Errorf": func(w *T) { w.Errorf("%s", "late") }, "Fatal": func(w *T) { w.Fatal("late") },
		"Skip": func(w *T) { w.Skip("late") }, "Logf": func(w *T) { w.Logf("%s", "late") }, "Fail": (*T).Fail,
	} {
		w := &T{T: t, left: true}
		ended, went := make(chan struct{}), false
		go func() {
			defer close(ended)
			report(w)
			went = true
		}()
		<-ended
		if went {
			t.Errorf("the body went on after %s", name)
		}
	}
}
