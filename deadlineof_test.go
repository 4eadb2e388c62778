package podwright

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
