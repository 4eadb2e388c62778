package enginetest_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
)

// TestHalfStoppedPodIsReleasedAfterAReboot: CK6, W6. A static pod was being stopped when the machine went down, and is wanted
// again. Nothing of it runs, but what its life held is released before its next life begins: that finds an empty volume.
func TestHalfStoppedPodIsReleasedAfterAReboot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 20 * time.Second}}}))
		web := withScratch(newPod("web"))
		r := n.agent()
		r.set(web)
		r.phase(web.UID, v1.PodRunning, time.Minute)
		<-time.After(5 * time.Second)
		if err := os.WriteFile(scratchFile(n.root, web.UID), []byte("first life"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.set()
		<-time.After(2 * time.Second)
		n.kill(r)
		n.rt.Reboot()
		n.boot = "boot-2"
		r = n.agent()
		r.set(withScratch(newPod("web")))
		r.within(time.Minute, "its next life", func() error {
			if have := starts(n.rt, web.UID); have != 2 {
				return fmt.Errorf("%d starts: %s", have, r.explain(web.UID))
			}
			return nil
		})
		if _, err := os.Stat(scratchFile(n.root, web.UID)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the next life has data of the first: %v", err)
		}
		r.phase(web.UID, v1.PodRunning, time.Minute)
	})
}

// TestHalfStoppedPodIsStoppedUnseen: CK6, V8. The agent was killed while it stopped a pod, and the runtime does not describe the
// pod to the next one. The pod is stopped all the same although it is wanted again, and then begins its next life.
func TestHalfStoppedPodIsStoppedUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{AbandonStopOnCancel: true, Script: func(l fake.Launch) fake.Script {
			return fake.Script{IgnoreTERM: l.Container == "main"}
		}}))
		web, good := newPod("web"), newPod("good", "other")
		web.Spec.TerminationGracePeriodSeconds = ptr.To[int64](25)
		r := n.agent()
		r.set(web, good)
		r.phase(web.UID, v1.PodRunning, time.Minute)
		r.set(good)
		<-time.After(5 * time.Second)
		n.kill(r)
		heal := n.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.ContainerStatus, PodUID: web.UID}, Effect: fake.Effect{Err: errors.New("broken metadata")}})
		r = n.agent()
		r.set(web, good)
		r.within(time.Minute, "its stop", func() error {
			if n.rt.Running(web.UID, "main") != 0 {
				return errors.New(r.explain(web.UID))
			}
			return nil
		})
		heal()
		r.within(2*time.Minute, "its next life", func() error {
			if have := starts(n.rt, web.UID); have != 2 {
				return fmt.Errorf("%d starts: %s", have, r.explain(web.UID))
			}
			return nil
		})
	})
}
