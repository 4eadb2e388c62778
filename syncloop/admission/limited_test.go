package admission

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// TestHandlerUnderALimit: IN6. A prompt answer is given at once and not kept; a late one
// is told and good for 10 s; one that never comes is a fault after 10 s, and is not
// asked for twice; a panic is a fault at once.
func TestHandlerUnderALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked, late, release := map[types.UID]int{}, []types.UID{}, make(chan struct{})
		l := Limit(HandlerFunc(func(r Request) Verdict {
			mu.Lock()
			asked[r.Pod.UID]++
			n := asked[r.Pod.UID]
			mu.Unlock()
			switch r.Pod.UID {
			case "slow":
				<-time.After(3 * time.Second)
			case "never":
				<-release
			case "panics":
				panic("no policy")
			}
			return Refuse("No", "%d", n)
		}), clock.RealClock{}, func(uid types.UID) {
			mu.Lock()
			defer mu.Unlock()
			late = append(late, uid)
		})
		pod := func(uid types.UID) *v1.Pod { return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }
		ask := func(p *v1.Pod) (Verdict, *HandlerError) {
			v, err := Judge([]Handler{l}, Request{Pod: p})
			synctest.Wait()
			var open *HandlerError
			errors.As(err, &open)
			return v, open
		}
		for i := range 2 {
			if v, open := ask(pod("prompt")); open != nil || v.Reason != "No" || asked["prompt"] != i+1 {
				t.Errorf("prompt: %v, %v, asked %d times", v, open, asked["prompt"])
			}
		}
		if _, open := ask(pod("panics")); open == nil || !open.Fault() || open.Trace() == "" {
			t.Errorf("a panic is %v", open)
		}
		for _, uid := range []types.UID{"slow", "never"} {
			if _, open := ask(pod(uid)); open == nil || open.Fault() {
				t.Errorf("%s: %v", uid, open)
			}
		}
		<-time.After(5 * time.Second)
		synctest.Wait()
		if !slices.Equal(late, []types.UID{"slow"}) {
			t.Errorf("late answers %v", late)
		}
		if v, open := ask(pod("slow")); open != nil || v.Message != "1" {
			t.Errorf("slow: %v, %v", v, open)
		}
		changed := pod("slow")
		changed.Spec.NodeName = "other"
		if _, open := ask(changed); open == nil {
			t.Error("the answer about another spec counts")
		}
		<-time.After(20 * time.Second)
		if _, open := ask(changed); open == nil || asked["slow"] != 3 {
			t.Errorf("an old answer counts: %v, asked %d times", open, asked["slow"])
		}
		if _, open := ask(pod("never")); open == nil || !open.Fault() || asked["never"] != 1 {
			t.Errorf("never: %v, asked %d times", open, asked["never"])
		}
		if v := l.Admit(Request{Pod: pod("never")}); v.Reason != ReasonUnexpected {
			t.Errorf("softly: %v", v)
		}
		close(release)
		<-time.After(5 * time.Second)
	})
}
