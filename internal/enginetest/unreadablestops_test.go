package enginetest_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
)

// TestUnreadablePodIsToldToStop: IN1, IN2, podworkers.md V8. The runtime lists a pod's container as
// running but gives no details of the pod: it does not answer, or answers with errors. When the pod
// is removed, it is still told to stop, with its own grace, in this process or the next. Its end
// waits until the pod can be read, and shows how it ended.
func TestUnreadablePodIsToldToStop(t *testing.T) {
	for name, effect := range map[string]fake.Effect{"hangs": {Hang: true}, "fails": {Err: errors.New("broken metadata")}} {
		for _, method := range []fake.Method{fake.ContainerStatus, fake.PodSandboxStatus} {
			for _, restarted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s, restarted %v", method, name, restarted), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { removeUnreadable(t, method, effect, restarted) })
				})
			}
		}
	}
}

func removeUnreadable(t *testing.T, method fake.Method, effect fake.Effect, restarted bool) {
	n := newHost(t, byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 2 * time.Second, Code: 4}}}))
	web, good := newPod("web"), newPod("good")
	web.Spec.TerminationGracePeriodSeconds = ptr.To[int64](25)
	heal := func() {}
	spoil := func() {
		heal = n.rt.Inject(fake.Fault{Match: fake.Match{Method: method, PodUID: web.UID}, Effect: effect})
	}
	if method == fake.ContainerStatus { // without a sandbox's address no container is started
		spoil()
	}
	sink := &tellings{}
	r := n.agent(sinks(sink))
	r.set(web, good)
	r.phase(good.UID, v1.PodRunning, time.Minute)
	if method == fake.PodSandboxStatus {
		r.phase(web.UID, v1.PodRunning, time.Minute)
		spoil()
	}
	<-time.After(20 * time.Second)
	if n.rt.Running(web.UID, "main") != 1 {
		t.Fatalf("it does not run: %s", r.explain(web.UID))
	}
	if restarted {
		n.kill(r)
		r = n.agent(sinks(sink))
	}
	r.set(good)
	r.within(30*time.Second, "the signal", func() error {
		if n.rt.Running(web.UID, "main") != 0 {
			return errors.New(r.explain(web.UID))
		}
		return nil
	})
	for _, c := range n.rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: web.UID}) {
		if timeout := c.Request.(*runtimeapi.StopContainerRequest).GetTimeout(); timeout < 1 || timeout > 25 {
			t.Errorf("stopped with a grace of %d s", timeout)
		}
	}
	<-time.After(10 * time.Minute)
	if stops := len(n.rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: web.UID})); stops > 2 {
		t.Errorf("told to stop %d times", stops)
	}
	heal()
	r.within(5*time.Minute, "its end", func() error {
		if told := sink.summary(web.UID); len(told) == 0 || told[len(told)-1] != "Running Error(4) finished" {
			return fmt.Errorf("told %v", told)
		}
		return nil
	})
	r.set()
	r.empty(2 * time.Minute)
}
