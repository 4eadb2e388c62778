package podinfo

import (
	"math"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestGraceIsTheSpecsOrTheDefault(t *testing.T) {
	for _, test := range []struct {
		seconds *int64
		want    time.Duration
	}{
		{nil, 30 * time.Second},
		{ptr.To[int64](0), 0},
		{ptr.To[int64](7), 7 * time.Second},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{TerminationGracePeriodSeconds: test.seconds}}
		if got := Grace(pod); got != test.want {
			t.Errorf("%v: %v, want %v", ptr.Deref(test.seconds, -1), got, test.want)
		}
	}
}

// TestStopWaitIsInWholeSeconds: spec/podworkers.md 6.
func TestStopWaitIsInWholeSeconds(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{
		0: 0, time.Second: time.Second, 2 * time.Second: 3 * time.Second, 7 * time.Second: 10 * time.Second, time.Minute: 90 * time.Second,
	} {
		if got := StopWait(grace); got != want {
			t.Errorf("%v: %v, want %v", grace, got, want)
		}
	}
	endless := Grace(&v1.Pod{Spec: v1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](math.MaxInt64)}})
	if got := StopWait(endless); got <= endless {
		t.Errorf("the longest grace, %v: %v", endless, got)
	}
}
