package enginetest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/admission"
)

// TestGonePodsDoNotStopTheAdmission: IN6, IN1. Handlers that never answered for some hundred pods, all of which are gone, still
// admit other pods, and let running ones go on.
func TestGonePodsDoNotStopTheAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		hangs := func(prefix string) admission.Handler {
			return admission.HandlerFunc(func(r admission.Request) admission.Verdict {
				if strings.HasPrefix(r.Pod.Name, prefix) {
					<-answer
				}
				return admission.Verdict{}
			})
		}
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Admission.Handlers = append(c.Admission.Handlers, hangs("hard"))
			c.Admission.Soft = append(c.Admission.Soft, hangs("soft"))
		}).start()
		keep := newPod("keep")
		r.set(keep)
		r.phase(keep.UID, v1.PodRunning, time.Minute)
		for round := range 14 {
			pods := []*v1.Pod{keep}
			for i := range 20 {
				pods = append(pods, newPod(fmt.Sprintf("hard-%d-%d", round, i)), newPod(fmt.Sprintf("soft-%d-%d", round, i)))
			}
			r.set(pods...)
			<-time.After(time.Minute)
		}
		r.set(keep)
		<-time.After(15 * time.Minute)
		r.set(keep, newPod("good"))
		r.phase("uid-good", v1.PodRunning, time.Minute)
		before := starts(rt, keep.UID)
		if err := rt.Exit(keep.UID, "main", fake.Exit{Code: 1}); err != nil {
			t.Fatal(err)
		}
		r.within(time.Minute, "the pod that runs is started again", func() error {
			if n := starts(rt, keep.UID); n == before {
				return fmt.Errorf("%d starts", n)
			}
			return nil
		})
		close(answer)
	})
}
