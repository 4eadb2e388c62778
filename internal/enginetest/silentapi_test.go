package enginetest_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/mirror"
	"github.com/podwright/podwright/syncloop/source"
)

// TestSuccessorDoesNotWaitForTheAPIServer: N6. A static pod that was replaced while no agent ran is stopped, and its successor
// starts, although the API server has not answered: it may be the API server. For any other silent source it waits.
func TestSuccessorDoesNotWaitForTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: time.Second}}})
		root, api, down := t.TempDir(), &mirror.FakeClient{}, &atomic.Bool{}
		withAPI := func(c *podwright.Config) { c.Sources = append(c.Sources, apiSource{api: api, down: down}) }
		first := newRig(t, rt, root, withAPI).start()
		first.set(newPod("web"))
		first.phase("uid-web", v1.PodRunning, 10*time.Second)
		first.stop()

		down.Store(true)
		next := newPod("web")
		next.UID = "uid-next"
		other := source.NewChannel(source.ChannelOptions{Name: "silent", NodeName: "n1"})
		second := newRig(t, rt, root, withAPI, func(c *podwright.Config) { c.Sources = append(c.Sources, other) }).start()
		second.set(next)
		<-time.After(5 * time.Minute)
		if rt.Running("uid-web", "main") != 1 || starts(rt, "uid-next") != 0 {
			t.Error("the former pod was stopped although another source may want it")
		}
		second.stop()

		third := newRig(t, rt, root, withAPI).start()
		third.set(next)
		third.phase("uid-next", v1.PodRunning, time.Minute)
		if rt.Running("uid-web", "main") != 0 {
			t.Error("the former pod runs, too")
		}
	})
}
