package enginetest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
)

// TestCrowdIsResizedAsFarAsThereIsRoom: spec/runtime.md 21.4. Of a hundred pods that ask for twice as much at once, as many
// get it as there is room for. When pods go, others get their room; new pods do not get it twice, and a restart of the
// agent changes nothing.
func TestCrowdIsResizedAsFarAsThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count, cpus = 100, 120
		rt, root := byContainer(nil), t.TempDir()
		r := newRig(t, rt, root, roomFor(fmt.Sprint(cpus))).start()
		var all []*v1.Pod
		for i := range count {
			all = append(all, sized(newPod(fmt.Sprintf("p%02d", i)), "1", "64Mi"))
		}
		has := func(limit time.Duration, want int64) {
			t.Helper()
			r.within(limit, fmt.Sprintf("%d CPUs", want), func() error {
				n := given(r, all...)
				if n > cpus {
					t.Fatalf("pods have %d CPUs of %d", n, cpus)
				}
				if n != want {
					return unmet(func() string { return fmt.Sprintf("%d CPUs", n) })
				}
				return nil
			})
		}
		r.set(all...)
		has(time.Minute, count)
		for i := range all {
			all[i] = sized(all[i], "2", "64Mi")
		}
		r.set(all...)
		has(time.Minute, cpus)
		all = all[10:] // some of them have 2 CPUs, others 1
		r.set(all...)
		has(time.Minute, cpus)
		late := sized(newPod("late"), "1", "64Mi")
		r.set(append(all, late)...)
		r.rejected(late.UID, "OutOfcpu")
		r.stop()
		r = newRig(t, rt, root, roomFor(fmt.Sprint(cpus))).start()
		r.set(append(all, late)...)
		has(time.Minute, cpus)
		all = all[50:]
		r.set(all...)
		has(time.Minute, 2*int64(len(all)))
	})
}

// TestCrowdOfCriticalPodsTakesTheFewest: section 16, preemption, and IN6. Ten critical pods come to a full node, some of
// them later, while three pods are being deleted, and the agent may die meanwhile. Seven pods have to go, no more, and
// there are never more pods than have room.
func TestCrowdOfCriticalPodsTakesTheFewest(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const room = 50
				rnd := rand.New(rand.NewPCG(3, seed))
				soon := func() { <-time.After(time.Duration(rnd.IntN(20)) * time.Second) }
				rt, root := byContainer(map[string]fake.Script{"slow": {IgnoreTERM: true}}), t.TempDir()
				r := newRig(t, rt, root, roomFor(fmt.Sprint(room))).start()
				var all, critical []*v1.Pod
				for i := range room {
					p := asking(newPod(fmt.Sprintf("p%02d", i), []string{"main", "slow"}[rnd.IntN(2)]), "1")
					p.Spec.TerminationGracePeriodSeconds, p.Spec.Priority = ptr.To(int64(1+rnd.IntN(40))), ptr.To(int32(rnd.IntN(5)))
					all = append(all, p)
				}
				r.set(all...)
				r.running(all...)
				for i := range 10 {
					critical = append(critical, withPriority(asking(newPod(fmt.Sprintf("c%d", i)), "1"), 2_000_000_000+1000*int32(rnd.IntN(2))))
				}
				for i := range 3 {
					all[i] = all[i].DeepCopy()
					all[i].DeletionTimestamp, all[i].DeletionGracePeriodSeconds = ptr.To(metav1.Now()), all[i].Spec.TerminationGracePeriodSeconds
				}
				r.set(slices.Concat(all, critical[:5])...)
				soon()
				r.set(slices.Concat(all, critical)...)
				soon()
				if rnd.IntN(2) == 0 {
					r.stop()
					r = newRig(t, rt, root, roomFor(fmt.Sprint(room))).start()
					r.set(slices.Concat(all, critical)...)
				}
				for range 700 {
					<-time.After(100 * time.Millisecond)
					n := 0
					for _, p := range slices.Concat(all, critical) {
						n += rt.Running(p.UID, p.Spec.Containers[0].Name)
					}
					if n > room {
						t.Fatalf("%d pods run in the room of %d", n, room)
					}
				}
				gone := 0
				for _, p := range all[3:] {
					if r.pod(p.UID).Status.Reason == "Preempting" {
						gone++
					}
				}
				if gone != 7 {
					t.Errorf("%d pods had to go", gone)
				}
				r.running(critical...)
			})
		})
	}
}
