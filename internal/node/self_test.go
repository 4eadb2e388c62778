package node

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/runtime/pods"
)

// newSelf is a node of 2 GiB that is described by functions, and counts what it logs.
func newSelf(edit func(*SelfOptions)) (s *Self, logged *int) {
	logged = new(int)
	log := func(string, string) {
		*logged++
		for _, mu := range []*sync.Mutex{&s.addresses.mu, &s.allocatable.mu, &s.object.mu} {
			if !mu.TryLock() { // nothing else runs
				panic("logged with the lock held: a logger may block")
			}
			mu.Unlock()
		}
	}
	o := SelfOptions{
		Name: "n1", IPs: []string{"192.0.2.1"}, Labels: map[string]string{"from": "config"}, Machine: &pods.Machine{MemoryCapacity: 2 << 30},
		Calls: foreign.New(clock.RealClock{}), Clock: clock.RealClock{},
		Logger: funcr.New(log, funcr.Options{}),
	}
	edit(&o)
	s = NewSelf(o)
	return s, logged
}

// TestSelfFollowsItsFunctions: SN1, SN4. A function is asked at most once a second; an answer that
// cannot be used leaves the last good one, and is logged once.
func TestSelfFollowsItsFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answer := 0, []string(nil)
		s, logged := newSelf(func(o *SelfOptions) {
			o.Addresses = func() []string { asked++; return answer }
		})
		for _, test := range []struct {
			answer, want []string
			logged       int
		}{
			{nil, []string{"192.0.2.1"}, 0},
			{[]string{"192.0.2.2", "2001:db8::2"}, []string{"192.0.2.2", "2001:db8::2"}, 0},
			{nil, []string{"192.0.2.2", "2001:db8::2"}, 0},
			{[]string{"192.0.2.3", "n1.example"}, []string{"192.0.2.2", "2001:db8::2"}, 1},
			{[]string{"192.0.2.3", "n1.example"}, []string{"192.0.2.2", "2001:db8::2"}, 1},
			{[]string{"192.0.2.4"}, []string{"192.0.2.4"}, 1},
			{[]string{"192.0.2.3", "n1.example"}, []string{"192.0.2.4"}, 2},
		} {
			<-time.After(selfPeriod)
			answer = test.answer
			before := asked
			for range 3 {
				if got := s.Addresses(); !slices.Equal(got, test.want) || *logged != test.logged {
					t.Errorf("answer %v: addresses %v, %d lines", test.answer, got, *logged)
				}
			}
			if asked != before+1 {
				t.Errorf("asked %d times in a second", asked-before)
			}
		}
	})
}

// TestSelfSurvivesItsFunctions: SN4, IN6. A function that panics, or does not return, does no harm: what was
// said before counts, and callers hardly wait.
func TestSelfSurvivesItsFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var mode atomic.Value
		s, _ := newSelf(func(o *SelfOptions) {
			o.AllocatableNow = func() v1.ResourceList {
				switch mode.Load() {
				case "panics":
					panic("no devices")
				case "hangs":
					<-release
				case "negative":
					return v1.ResourceList{v1.ResourceCPU: resource.MustParse("-1")}
				}
				return v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")}
			}
		})
		for _, m := range []string{"good", "panics", "negative", "hangs", "hangs"} {
			mode.Store(m)
			<-time.After(selfPeriod)
			begin, got := time.Now(), s.Allocatable()
			if got.Cpu().Value() != 3 || got.Memory().Value() != 2<<30 {
				t.Errorf("%s: allocatable %v", m, got)
			}
			if waited := time.Since(begin); waited > 20*time.Millisecond {
				t.Errorf("%s: a caller waited for %v", m, waited)
			}
		}
		close(release)
		synctest.Wait()
	})
}

// TestSelfIsTheNodesObject: SN3. Labels and taints are those of the object once there is one, and of no other node.
func TestSelfIsTheNodesObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var object *v1.Node
		s, _ := newSelf(func(o *SelfOptions) {
			o.Object = func() *v1.Node { return object }
		})
		taints := []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoExecute}}
		other := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2", Labels: map[string]string{"from": "other"}}}
		own := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"from": "object"}}, Spec: v1.NodeSpec{Taints: taints}}
		bare := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		for i, test := range []struct {
			object *v1.Node
			from   string
			taints int
		}{
			{nil, "config", 0}, {other, "config", 0}, {own, "object", 1}, {nil, "object", 1}, {bare, "", 0},
		} {
			<-time.After(selfPeriod)
			object = test.object
			if labels := s.Labels(); labels["from"] != test.from || labels == nil || len(s.Taints()) != test.taints {
				t.Errorf("%d: labels %v, taints %v", i, labels, s.Taints())
			}
		}
	})
}
