package agenttest

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// TestCrashingNightIsTold: KV4. A container crashes for 5 h. The event of its back-off is one object with a count, as are those of its
// starts, and none gets as old as an API server keeps it.
func TestCrashingNightIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crashes := always(fake.Script{Exit: &fake.Exit{After: time.Second, Code: 1}})
		w := newWorld(t, life{scripts: map[string]func(fake.Launch) fake.Script{"main": crashes}}, nil)
		w.prepare()
		w.start()
		w.pass(3 * time.Second)
		w.create(newPod("web", "uid-web", "main"))
		events := func() map[string][]v1.Event {
			list, err := w.admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			byReason := map[string][]v1.Event{}
			for _, e := range list.Items {
				if e.InvolvedObject.Name == "web" {
					byReason[e.Reason] = append(byReason[e.Reason], e)
				}
			}
			return byReason
		}
		w.pass(time.Hour)
		for range 16 {
			w.pass(15 * time.Minute)
			got := events()
			for _, reason := range []string{"BackOff", "Created", "Started"} {
				if e := got[reason]; len(e) != 1 || e[0].Count < 2 || time.Since(e[0].LastTimestamp.Time) > 45*time.Minute {
					t.Fatalf("%s: %d objects, %+v", reason, len(e), e)
				}
			}
		}
		w.stop()
	})
}
