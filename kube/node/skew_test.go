package node

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestOffset (KN10): only what the second of the date and the time of the call cannot
// explain counts.
func TestOffset(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		took time.Duration
		date time.Time
		want time.Duration
	}{
		"equal":                   {0, noon, 0},
		"same second":             {0, noon.Add(-time.Second), 0},
		"slow call":               {30 * time.Second, noon.Add(25 * time.Second), 0},
		"server ahead":            {time.Second, noon.Add(time.Hour), time.Hour - time.Second},
		"server behind":           {time.Second, noon.Add(-time.Hour), -time.Hour + time.Second},
		"behind, within a second": {0, noon.Add(-1500 * time.Millisecond), -500 * time.Millisecond},
	} {
		if got := offset(noon, noon.Add(c.took), c.date); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// dated is an API server whose clock is off.
type dated struct{ off time.Duration }

func (d *dated) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Header: http.Header{"Date": {time.Now().Add(d.off).UTC().Format(http.TimeFormat)}}}, nil
}

// TestSkewIsTold once, when it begins (KN10): the node goes on all the same.
func TestSkewIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, skew, server := newRig(t), &Skew{}, &dated{}
		r.start(func(o *Options) { o.Skew = skew })
		ask := func() {
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api", nil)
			response, err := skew.Wrap(server).RoundTrip(request)
			if err != nil || response == nil {
				t.Fatal(err)
			}
			after(30 * time.Second)
		}
		ask()
		server.off = 5 * time.Second
		ask()
		if len(r.events) != 0 {
			t.Errorf("events %q", r.events)
		}
		for _, off := range []time.Duration{time.Hour, time.Hour, 0, -time.Minute} {
			server.off = off
			ask()
		}
		if len(r.events) != 2 || !strings.Contains(r.events[0], "1h0m0s behind that") || !strings.Contains(r.events[1], "ahead of that") {
			t.Errorf("events %q", r.events)
		}
		if age := time.Since(r.lease().Spec.RenewTime.Time); age > 10*time.Second {
			t.Errorf("the lease is %s old", age)
		}
	})
}
