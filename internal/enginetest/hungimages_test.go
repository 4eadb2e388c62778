package enginetest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/runtime/fake"
)

// hungFs does not say where the images are before the test has ended.
type hungFs struct {
	*fake.Runtime
	over chan struct{}
}

func (h hungFs) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	<-h.over
	return nil, context.Canceled
}

// TestHungImageCollectionIsAProblem: IN2, IG8. What the collection of images waits for is listed: a removal that hangs, and
// a function of the program that does.
func TestHungImageCollectionIsAProblem(t *testing.T) {
	for _, test := range []struct {
		hangs string
		want  []string
	}{
		{"RemoveImage", []string{"RemoveImage", "sha256:"}},
		{"Disk", []string{"ImageGC.Disk"}},
	} {
		t.Run(test.hangs, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, over := fake.New(fake.Options{}), make(chan struct{})
				if test.hangs == "RemoveImage" {
					rt.Inject(fake.Fault{Match: fake.Match{Method: fake.RemoveImage}, Effect: fake.Effect{Hang: true}})
				}
				r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
					c.ImageGC = &podwright.ImageGC{Dir: t.TempDir(), Period: time.Minute, Policy: imagegc.Policy{MaxAge: time.Minute}}
					if test.hangs == "Disk" {
						c.ImageGC.Dir, c.Images = "", hungFs{rt, over}
					}
				}).start()
				t.Cleanup(func() { close(over) })
				r.set(newPod("a"))
				r.phase("uid-a", v1.PodRunning, time.Minute)
				r.set()
				r.within(10*time.Minute, "the problem", func() error {
					for _, p := range r.engine.Problems() {
						if text := p.String(); strings.Contains(text, test.want[0]) && strings.Contains(text, test.want[len(test.want)-1]) {
							return nil
						}
					}
					return fmt.Errorf("%v", r.engine.Problems())
				})
			})
		})
	}
}
