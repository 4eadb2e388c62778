package enginetest_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// TestEmptyDirBelongsToOneLife: cleanup.md IN3. A static pod is removed and wanted again, and the
// agent is killed in between, at one moment or another. If a new life begins, it begins with an
// empty emptyDir. If no agent saw the removal, the same life continues with its container and its
// data, as with the kubelet.
func TestEmptyDirBelongsToOneLife(t *testing.T) {
	step := 1
	if raceDetector {
		step = 3
	}
	for at := -1; at < 30; at += step {
		t.Run(fmt.Sprint("killed at ", at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { wantAgain(t, at) })
		})
	}
}

// wantAgain kills the agent this many quarters of a second after the removal; -1: the pod is
// removed and wanted again while no agent is running.
func wantAgain(t *testing.T, at int) {
	n := newHost(t, byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 2 * time.Second, Code: 4}}}))
	for _, m := range []fake.Method{fake.RemoveContainer, fake.StopPodSandbox, fake.RemovePodSandbox} {
		n.rt.Inject(fake.Fault{Match: fake.Match{Method: m}, Effect: fake.Effect{Delay: 600 * time.Millisecond}})
	}
	web := withScratch(newPod("web"))
	r := n.agent()
	r.set(web)
	r.phase(web.UID, v1.PodRunning, time.Minute)
	<-time.After(5 * time.Second)
	file := scratchFile(n.root, web.UID)
	if err := os.WriteFile(file, []byte("of the first life"), 0o600); err != nil {
		t.Fatal(err)
	}
	if at >= 0 {
		r.set()
		<-time.After(time.Duration(at) * 250 * time.Millisecond)
	}
	n.kill(r)
	r = n.agent()
	r.set(withScratch(newPod("web")))
	r.within(2*time.Minute, "the pod", func() error {
		if n.rt.Running(web.UID, "main") != 1 {
			return errors.New(r.explain(web.UID))
		}
		return nil
	})
	<-time.After(30 * time.Second)
	text, err := os.ReadFile(file)
	switch f := n.rt.Facts(web.UID, "main"); {
	case f.Running != 1 || f.Started > 2 || at < 0 && f.Started != 1:
		t.Errorf("%+v, %s", f, r.explain(web.UID))
	case f.Started == 1 && string(text) != "of the first life":
		t.Errorf("the same life has lost its data: %v", err)
	case f.Started == 2 && !errors.Is(err, os.ErrNotExist):
		t.Errorf("the next life has data of the first: %q, %v", text, err)
	}
}
