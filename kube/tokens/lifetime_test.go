package tokens

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// KK2: a token is due at 80 % of its life or after 24 h, and at most 10 s, or a tenth, earlier.
func TestTokenIsDueBeforeItEnds(t *testing.T) {
	came := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		life   time.Duration
		chance float64
		want   time.Duration
	}{
		{time.Hour, 0, 48 * time.Minute},
		{time.Hour, 0.5, 48*time.Minute - 5*time.Second},
		{10 * time.Minute, 0, 8 * time.Minute},
		{30 * time.Hour, 0, 24 * time.Hour},
		{8760 * time.Hour, 1, 24*time.Hour - 10*time.Second},
		{time.Minute, 1, 48*time.Second - 4800*time.Millisecond},
		{0, 1, 0},
	} {
		if got := dueAt(came, tc.life, tc.chance).Sub(came); got != tc.want {
			t.Errorf("life %v, chance %v: due after %v, want %v", tc.life, tc.chance, got, tc.want)
		}
	}
}

// KK3: pauses grow to 30 s, and to 5 min after a refusal; the server's own wish counts up to that.
func TestPausesAfterFailures(t *testing.T) {
	accounts := schema.GroupResource{Resource: "serviceaccounts"}
	for name, tc := range map[string]struct {
		err         error
		first, last time.Duration
	}{
		"unreachable":  {errors.New("connection refused"), time.Second, 30 * time.Second},
		"broken":       {apierrors.NewInternalError(errors.New("etcd")), time.Second, 30 * time.Second},
		"overloaded":   {apierrors.NewTooManyRequests("later", 7), 7 * time.Second, 30 * time.Second},
		"busy forever": {apierrors.NewTooManyRequests("later", 1e6), 5 * time.Minute, 5 * time.Minute},
		"unauthorised": {apierrors.NewUnauthorized("expired"), time.Second, 5 * time.Minute},
		"forbidden":    {apierrors.NewForbidden(accounts, "a", errors.New("no")), time.Second, 5 * time.Minute},
		"no account":   {apierrors.NewNotFound(accounts, "a"), time.Second, 5 * time.Minute},
		"another life": {apierrors.NewConflict(accounts, "a", errors.New("UID")), time.Second, 5 * time.Minute},
	} {
		pause := pauseAfter(tc.err, 0)
		if pause != tc.first {
			t.Errorf("%s: first %v, want %v", name, pause, tc.first)
		}
		for range 20 {
			pause = pauseAfter(tc.err, pause)
		}
		if pause != tc.last {
			t.Errorf("%s: last %v, want %v", name, pause, tc.last)
		}
	}
}
