package enginetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// TestRenamedWhileDown: M5, N6. A pod gets another name under its UID while no agent runs. It ends as the pod that it was, and
// begins its next life under its new name, whether or not another pod has its former name now, and even if the agent is killed
// again in between. One that keeps its name is not disturbed.
func TestRenamedWhileDown(t *testing.T) {
	step := 1
	if raceDetector {
		step = 3
	}
	for _, successor := range []bool{true, false} {
		for at := -1; at < 12; at += step { // the agent is killed again this many half seconds after its start; -1: it is not
			t.Run(fmt.Sprintf("successor %t, killed at %d", successor, at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { renameWhileDown(t, successor, at) })
			})
		}
	}
}

func renameWhileDown(t *testing.T, successor bool, at int) {
	n := newHost(t, byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 3 * time.Second}}}))
	r := n.agent()
	r.set(newPod("a"), newPod("same"))
	r.phase("uid-a", v1.PodRunning, time.Minute)
	<-time.After(5 * time.Second)
	n.kill(r)
	r = n.agent()
	renamed, next := newPod("b"), newPod("a")
	renamed.UID, next.UID = "uid-a", "uid-next"
	list := []*v1.Pod{newPod("same"), renamed}
	want := map[string]string{"uid-a": "b", "uid-same": "same"}
	if successor {
		list, want["uid-next"] = append(list, next), "a"
	}
	r.set(list...)
	if at >= 0 {
		<-time.After(time.Duration(at) * 500 * time.Millisecond)
		n.kill(r)
		r = n.agent()
		r.set(list...)
	}
	r.within(time.Minute, "all pods under their names", func() error {
		sandboxes, err := n.rt.ListPodSandbox(t.Context(), nil)
		names := map[string]string{}
		for _, s := range sandboxes {
			if s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
				names[s.Metadata.Uid] = s.Metadata.Name
			}
		}
		if fmt.Sprint(names) != fmt.Sprint(want) {
			return fmt.Errorf("sandboxes: %v, %w; %s; %s", names, err, r.explain("uid-a"), r.explain("uid-next"))
		}
		return nil
	})
	<-time.After(time.Minute)
	for uid := range want {
		lives := 1
		if uid == "uid-a" {
			lives = 2
		}
		if have := starts(n.rt, types.UID(uid)); have != lives {
			t.Errorf("%s: %d starts", uid, have)
		}
		r.phase(types.UID(uid), v1.PodRunning, time.Minute)
	}
}
