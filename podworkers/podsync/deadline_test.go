package podsync

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// TestDeadlineOf: W3, edge case 27. The local start time counts, then the API's; none
// is no deadline.
func TestDeadlineOf(t *testing.T) {
	at := func(s int64) *metav1.Time { return &metav1.Time{Time: time.Unix(s, 0)} }
	for name, test := range map[string]struct {
		deadline   *int64
		local, api *metav1.Time
		want       int64 // 0: none
	}{
		"no deadline":     {nil, at(100), at(100), 0},
		"no start":        {ptr.To[int64](10), nil, nil, 0},
		"local start":     {ptr.To[int64](10), at(100), at(50), 110},
		"start at an API": {ptr.To[int64](10), nil, at(50), 60},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{ActiveDeadlineSeconds: test.deadline}, Status: v1.PodStatus{StartTime: test.api}}
		got, has := deadlineOf(pod, &v1.PodStatus{StartTime: test.local})
		if has != (test.want != 0) || has && got.Unix() != test.want {
			t.Errorf("%s: %v, %v", name, got, has)
		}
	}
}

// TestDeadlinesTake: W1, W2, edge case 34. A new time takes the place of the old one, a
// later one too; due is who has reached it, at that very moment, and once.
func TestDeadlinesTake(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(1000+s, 0) }
	d := newDeadlines(clock.RealClock{}, nil)
	check := func(now, next int64, want ...types.UID) {
		t.Helper()
		due, then := d.take(at(now))
		slices.Sort(due)
		if !slices.Equal(due, want) || then.IsZero() != (next == 0) || next != 0 && !then.Equal(at(next)) {
			t.Errorf("at %d s: due %v, next %v; want %v, next %d s", now, due, then, want, next)
		}
	}
	check(0, 0)
	d.set("web", at(10))
	d.set("db", at(30))
	check(5, 10)
	d.set("web", at(60))
	check(10, 30)
	check(29, 30)
	check(30, 60, "db")
	check(59, 60)
	check(60, 0, "web")
	check(3600, 0)
	d.set("web", at(7200))
	d.set("web", at(4000)) // an earlier one, too
	d.set("gone", at(4000))
	d.forget("gone")
	check(3999, 4000)
	check(4001, 0, "web")
}
