package enginetest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
)

// unchecked is a source that delivers pods as they are.
type unchecked chan []*v1.Pod

func (unchecked) Name() string { return "unchecked" }

func (u unchecked) Run(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error {
	for {
		select {
		case pods := <-u:
			if err := deliver(ctx, pods); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestPodWithAnImpossibleUIDEnds: a UID that cannot be the name of a folder keeps a pod from starting, but
// not from ending: nothing waits for it once its source has dropped it.
func TestPodWithAnImpossibleUIDEnds(t *testing.T) {
	for _, uid := range []types.UID{"..", "a/b"} {
		synctest.Test(t, func(t *testing.T) {
			u := make(unchecked)
			r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) { c.Sources = []syncloop.Source{u} }).start()
			pod := newPod("a")
			pod.UID = uid
			u <- []*v1.Pod{pod}
			<-time.After(10 * time.Second)
			u <- nil
			<-time.After(time.Minute)
			if e, known := r.engine.Explain(uid); known || len(r.engine.Problems()) > 0 {
				t.Errorf("%q: %+v, problems %v", uid, e.Worker, r.engine.Problems())
			}
		})
	}
}

// TestPodWithoutUIDIsNamed: M9, also where the node gives pods their UIDs (PS8).
func TestPodWithoutUIDIsNamed(t *testing.T) {
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("OwnUIDs: %v", own), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := make(unchecked)
				r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) {
					c.Sources = []syncloop.Source{u}
					c.Admission.Sources = map[string]admission.SourcePolicy{"unchecked": {OwnUIDs: own}}
				}).start()
				none, other := newPod("none"), newPod("other")
				none.UID = ""
				u <- []*v1.Pod{none, nil, other}
				<-time.After(10 * time.Second)
				problems := r.engine.Problems()
				if len(problems) != 1 || !strings.Contains(problems[0].String(), "none") || r.events.count("none FailedValidation") != 1 {
					t.Errorf("problems %v, %d events", problems, r.events.count("none FailedValidation"))
				}
				if pods := r.engine.Pods(); len(pods) != 1 || pods[0].Status.Phase != v1.PodRunning {
					t.Errorf("pods: %v", pods)
				}
			})
		})
	}
}
