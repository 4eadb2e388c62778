package tokens

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// KK8: a certificate is due when its signer said, otherwise at 80 % of its life; what would be due on arrival is used
// for 80 % of what is left, a minute at least.
func TestCertificateIsNotDueOnArrival(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		said      *metav1.Time
		end, want time.Duration
	}{
		"not said":      {nil, time.Hour, 48 * time.Minute},
		"said":          {&metav1.Time{Time: now.Add(20 * time.Minute)}, time.Hour, 20 * time.Minute},
		"said too soon": {&metav1.Time{Time: now.Add(time.Millisecond)}, time.Hour, time.Minute},
		"now":           {&metav1.Time{Time: now}, time.Hour, 48 * time.Minute},
		"before":        {&metav1.Time{Time: now.Add(-time.Hour)}, 20 * time.Minute, 16 * time.Minute},
		"almost over":   {&metav1.Time{Time: now.Add(-time.Hour)}, 10 * time.Second, time.Minute},
		"over":          {nil, -time.Hour, time.Minute},
		"said, not set": {&metav1.Time{}, time.Hour, 48 * time.Minute},
	} {
		if got := renewAt(now, tc.said, now.Add(tc.end)).Sub(now); got != tc.want {
			t.Errorf("KK8: %s: due after %v, want %v", name, got, tc.want)
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
		"a page":       {apierrors.NewGenericServerResponse(404, "post", accounts, "a", "404 page not found", 0, true), time.Second, 30 * time.Second},
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

// KK3, KK4, KK6: what a proxy says on a page of its own is no decision of the API server, whatever its code.
func TestPageIsNoDecision(t *testing.T) {
	now := time.Now()
	accounts := schema.GroupResource{Resource: "serviceaccounts"}
	for _, code := range []int{400, 401, 403, 404, 409, 422} {
		for _, verb := range []string{"get", "POST"} {
			err := apierrors.NewGenericServerResponse(code, verb, accounts, "a", "<html>", 0, true)
			if refused(err) || decided(err) || gone(err) || lags(now, err, now) || pauseAfter(err, time.Hour) != pauseMax {
				t.Errorf("%s, page with %d: refused %t, decided %t, gone %t, lags %t, pause %v", verb, code, refused(err), decided(err), gone(err),
					lags(now, err, now), pauseAfter(err, time.Hour))
			}
		}
	}
}
