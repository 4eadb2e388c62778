package status_test

import (
	"fmt"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/status"
)

// Readers get one status or the next, never a mixture. The race detector checks this.
func TestReadersNeverGetAMixture(t *testing.T) {
	m := status.NewManager(status.Options{})
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}
	set := func(i int) {
		text := fmt.Sprint(i)
		if err := m.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodRunning, Reason: text, Message: text}); err != nil {
			t.Error(err)
		}
	}
	set(0)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 1000 {
			set(i)
		}
	})
	for range 1000 {
		s, ok := m.Get("u")
		if !ok || s.Reason != s.Message {
			t.Fatalf("got %v, reason %q, message %q", ok, s.Reason, s.Message)
		}
	}
	wg.Wait()
}
