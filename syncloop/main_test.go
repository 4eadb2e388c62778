package syncloop

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is a fixed time for objects in tests.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newPod returns a pod; edits change it.
func newPod(uid, name string, edits ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: name, Namespace: "default"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "app:1"}}},
	}
	for _, e := range edits {
		e(p)
	}
	return p
}

func image(image string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Image = image }
}

func deleted(p *v1.Pod) {
	t := metav1.NewTime(start)
	p.DeletionTimestamp = &t
}

func grace(seconds int64) func(*v1.Pod) {
	return func(p *v1.Pod) { p.DeletionGracePeriodSeconds = &seconds }
}

func phase(phase v1.PodPhase) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Status.Phase = phase }
}

func annotated(k, v string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[k] = v
	}
}

func created(t time.Time) func(*v1.Pod) {
	return func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(t) }
}
