package enginetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// TestNoLifeBeginsDuringAShutdown: IN13. Four of six pods are removed and wanted again before the
// node shuts down, while the runtime takes 3 s to list its pods. Whenever their first lives end, no
// part of the engine (loop, workers or housekeeping) begins their next lives until the engine
// starts again.
func TestNoLifeBeginsDuringAShutdown(t *testing.T) {
	t.Parallel()
	for after := 3 * time.Second; after < 12*time.Second; after += 700 * time.Millisecond {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { shutDownBetweenLives(t, after) })
		})
	}
}

func shutDownBetweenLives(t *testing.T, after time.Duration) {
	rt, root := byContainer(map[string]fake.Script{"deaf": {IgnoreTERM: true}}), t.TempDir()
	r := newRig(t, rt, root).start()
	var pods []*v1.Pod
	for i := range 6 {
		p := newPod(fmt.Sprintf("web-%d", i), "deaf")
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5)
		pods = append(pods, p)
	}
	r.set(pods...)
	for _, p := range pods {
		r.phase(p.UID, v1.PodRunning, time.Minute)
	}
	rt.Inject(fake.Fault{Match: fake.Match{Method: fake.ListPodSandbox}, Effect: fake.Effect{Delay: 3 * time.Second}})
	r.set(pods[4:]...)
	<-time.After(time.Second)
	r.set(pods...)
	<-time.After(after)
	before := map[int]int{}
	for i, p := range pods {
		before[i] = starts(rt, p.UID)
	}
	if _, err := r.engine.Shutdown(t.Context(), shutdown.Plan{}); err != nil {
		t.Fatal(err)
	}
	<-time.After(5 * time.Minute)
	for i, p := range pods {
		if n := starts(rt, p.UID); n != before[i] {
			t.Errorf("%s: %d starts, %d before the shutdown; %s", p.UID, n, before[i], r.explain(p.UID))
		}
	}
}
