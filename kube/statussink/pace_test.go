package statussink

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// TestPauseAfter: KT7.
func TestPauseAfter(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, test := range map[string]struct {
		err  error
		want time.Duration
	}{
		"success":                     {nil, 0},
		"no route":                    {errors.New("no route"), 0},
		"too many requests for 7 s":   {apierrors.NewTooManyRequests("slow down", 7), 7 * time.Second},
		"too many requests":           {apierrors.NewTooManyRequestsError("slow down"), time.Second},
		"server away, with a time":    {apierrors.NewGenericServerResponse(503, "patch", pods, "web", "", 30, true), 30 * time.Second},
		"server away, without a time": {apierrors.NewServiceUnavailable("away"), 0},
		"server slow, without a time": {apierrors.NewServerTimeout(pods, "patch", 0), 0},
		"a year":                      {apierrors.NewTooManyRequests("go away", 365*24*3600), maxPause},
		"not found":                   {apierrors.NewNotFound(pods, "web"), 0},
	} {
		if got := pauseAfter(test.err); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestRetryAfterHoldsAllCalls: KT7. A pause that the server asks for holds the calls about
// other pods too, and a call that is not in its turn makes none.
func TestRetryAfterHoldsAllCalls(t *testing.T) {
	for name, answer := range map[string]func() *http.Response{
		"a status": func() *http.Response {
			return failure(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "slow down", 40)
		},
		"a text": func() *http.Response { return busy(40) },
	} {
		t.Run(name, func(t *testing.T) { retryAfterHoldsAllCalls(t, answer) })
	}
}

func retryAfterHoldsAllCalls(t *testing.T, answer func() *http.Response) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		web, db := s.put(aPod("u1", "web")), s.put(aPod("u2", "db"))
		sink := newSink(t, s)
		s.setFault(func(*http.Request) *http.Response { return answer() })
		began := time.Now()
		if _, err := sink.ReadPod(t.Context(), ref(web)); !apierrors.IsTooManyRequests(err) {
			t.Errorf("error %v", err)
		}
		if time.Since(began) != 0 {
			t.Error("the call waited and was repeated")
		}
		s.setFault(nil)
		s.took()

		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if _, err := sink.ReadPod(ctx, ref(web)); err == nil {
			t.Error("a call within the pause")
		}
		if err := sink.DeletePod(t.Context(), ref(db)); err != nil {
			t.Error(err)
		}
		if got := time.Since(began); got != 40*time.Second {
			t.Errorf("the next call after %v", got)
		}
		if got := s.took(); got != "DELETE db" {
			t.Errorf("calls %s", got)
		}
	})
}

// TestPace: KT7. So many calls at once, then so many a second; a call that gives up
// leaves its turn to others.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(10, 5, clock.RealClock{})
		began := time.Now()
		for range 5 {
			if err := p.wait(t.Context()); err != nil || time.Since(began) != 0 {
				t.Fatalf("%v after %v", err, time.Since(began))
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		given := make(chan error)
		go func() { given <- p.wait(ctx) }()
		synctest.Wait()
		cause := errors.New("enough")
		cancel(cause)
		if err := <-given; !errors.Is(err, cause) {
			t.Errorf("given up: %v", err)
		}
		for i := range 20 {
			if err := p.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, want := time.Since(began), time.Duration(i+1)*100*time.Millisecond; got != want {
				t.Fatalf("call %d after %v, want %v", i, got, want)
			}
		}
	})
}
