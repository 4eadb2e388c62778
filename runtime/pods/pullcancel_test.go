package pods_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/fake"
)

// Deleting a pod while its image is pulled, at many random moments: the pull ends
// at once, and nothing is created or started afterwards (spec/runtime.md 9.4).
func TestDeleteDuringPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOn(t, fake.Options{MaxCalls: 1000})
		w.fake.Inject(
			fake.Fault{Match: fake.Match{Method: fake.PullImage}, Effect: fake.Effect{Hang: true}},
			fake.Fault{Match: fake.Match{Method: fake.RunPodSandbox}, Effect: fake.Effect{Delay: time.Second}},
			fake.Fault{Match: fake.Match{Method: fake.ImageStatus}, Effect: fake.Effect{Delay: time.Second}},
		)
		const schedules = 2000
		random := rand.New(rand.NewSource(1))
		pulling := 0
		for i := range schedules {
			pod := newPod(func(p *v1.Pod) { p.UID = types.UID(fmt.Sprint("uid-", i)) })
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan time.Time, 1)
			go func() {
				w.m.SyncPod(ctx, pod, nil)
				done <- time.Now()
			}()
			pass(time.Duration(random.Int63n(int64(4 * second))))
			synctest.Wait()
			if len(w.m.Pulling(pod.UID)) > 0 {
				pulling++
			}
			deleted := time.Now()
			cancel()
			if ended := <-done; ended.Sub(deleted) > second {
				t.Fatalf("schedule %d: the sync went on for %v", i, ended.Sub(deleted))
			}
			w.m.Forget(pod.UID)
			if err := errors.Join(w.m.KillPod(t.Context(), pod, nil, nil), w.m.RemovePodDir(t.Context(), pod.UID)); err != nil {
				t.Fatal(err)
			}
		}
		if n := w.fake.CallCount(fake.CreateContainer) + w.fake.CallCount(fake.StartContainer); n != 0 {
			t.Errorf("%d calls create or start a container", n)
		}
		if pulling < schedules/10 {
			t.Errorf("only %d of the deletions came during the pull", pulling)
		}
		if now, _ := w.fake.InFlight(); now != 0 {
			t.Errorf("%d calls in flight at the end", now)
		}
		t.Logf("%d of %d deletions came during the pull", pulling, schedules)
	})
}
