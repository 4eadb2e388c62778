package enginetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// TestPodWhoseDeletionIsTakenBackRunsAgain: PS9. A static pod whose source takes back the deletion stops, and begins its
// next life then, whether it is still stopping or has finished, and whether or not the agent is restarted in between.
func TestPodWhoseDeletionIsTakenBackRunsAgain(t *testing.T) {
	deleted := func() *v1.Pod {
		pod := newPod("web")
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		return pod
	}
	for when, wait := range map[string]time.Duration{"while it stops": time.Second, "as it ends": 3 * time.Second, "when it is finished": time.Minute} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed: %t", when, killed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newHost(t, byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 3 * time.Second}}}))
					r := n.agent()
					r.set(newPod("web"))
					r.phase("uid-web", v1.PodRunning, time.Minute)
					<-time.After(5 * time.Second)
					r.set(deleted())
					<-time.After(wait)
					r.set(newPod("web"))
					if killed {
						<-time.After(100 * time.Millisecond)
						n.kill(r)
						r = n.agent()
						r.set(newPod("web"))
					}
					lives := func(want int) {
						r.within(time.Minute, fmt.Sprintf("life %d", want), func() error {
							if have := starts(n.rt, "uid-web"); have != want {
								return fmt.Errorf("%d starts: %s", have, r.explain("uid-web"))
							}
							return nil
						})
						<-time.After(time.Minute)
						if have := starts(n.rt, "uid-web"); have != want {
							t.Errorf("%d starts a minute later, want %d", have, want)
						}
						r.phase("uid-web", v1.PodRunning, time.Minute)
					}
					lives(2)
					r.set(deleted())
					<-time.After(time.Minute)
					r.set(newPod("web"))
					lives(3)
				})
			})
		}
	}
}

// TestPodThatIsDeletedAgainStaysEnded: PS9, U5. A pod that is deleted again before its next life has begun gets none, and
// shows the end of its first life.
func TestPodThatIsDeletedAgainStaysEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{Code: 3, After: 3 * time.Second}}}))
		r := n.agent()
		r.set(newPod("web"))
		r.phase("uid-web", v1.PodRunning, time.Minute)
		deleted := newPod("web")
		deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		for range 2 {
			r.set(deleted)
			<-time.After(500 * time.Millisecond)
			r.set(newPod("web"))
			<-time.After(500 * time.Millisecond)
		}
		r.set(deleted)
		<-time.After(time.Minute)
		if shown := r.pod("uid-web").Status.ContainerStatuses; len(shown) != 1 || shown[0].State.Terminated == nil || shown[0].State.Terminated.ExitCode != 3 {
			t.Errorf("it shows %v", shown)
		}
		if err := r.problems(); err != nil {
			t.Error(err)
		}
		if have := starts(n.rt, "uid-web"); have != 1 {
			t.Errorf("%d starts", have)
		}
		r.set(newPod("web"))
		r.phase("uid-web", v1.PodRunning, time.Minute)
	})
}

// TestFinishedJobWhoseDeletionIsTakenBackRunsAgain: PS9. So does a pod that had ended on its own when it was deleted.
func TestFinishedJobWhoseDeletionIsTakenBackRunsAgain(t *testing.T) {
	for _, killed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newHost(t, byContainer(map[string]fake.Script{"main": {Exit: &fake.Exit{After: 5 * time.Second}}}))
			job := func() *v1.Pod {
				pod := newPod("web")
				pod.Spec.RestartPolicy = v1.RestartPolicyNever
				return pod
			}
			r := n.agent()
			r.set(job())
			r.phase("uid-web", v1.PodSucceeded, time.Minute)
			<-time.After(time.Minute)
			deleted := job()
			deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			r.set(deleted)
			<-time.After(time.Minute)
			r.set(job())
			if killed {
				<-time.After(100 * time.Millisecond)
				n.kill(r)
				r = n.agent()
				r.set(job())
			}
			<-time.After(time.Minute)
			r.phase("uid-web", v1.PodSucceeded, time.Minute)
			if have := starts(n.rt, "uid-web"); have != 2 {
				t.Errorf("killed %t: %d starts", killed, have)
			}
		})
	}
}
