package main

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podwrighttest"
	"github.com/podwright/podwright/runtime/fake"
)

// A drain tells of each pod what its stop waits for, not what the pod would wait for if it ran on.
func TestStopWaitsFor(t *testing.T) {
	programs := map[string]podwrighttest.Program{"job": {Exits: true}}
	podwrighttest.Run(t, podwrighttest.Options{Programs: programs}, func(n *podwrighttest.Node) {
		web, job := podwrighttest.Pod("web"), podwrighttest.Pod("job", "job")
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		waits := func(p *v1.Pod) string {
			e, _ := n.Engine().Explain(p.UID)
			return stopWaitsFor(v1.PodRunning, e.Worker)
		}
		wait := func(p *v1.Pod, want string) {
			t.Helper()
			n.Wait(p.Name+" waits for "+want, func() error {
				if got := waits(p); got != want && !(want != "" && strings.HasPrefix(got, want)) {
					return fmt.Errorf("it waits for %q", got)
				}
				return nil
			})
		}
		wait(web, "to be stopped") // not known yet
		n.Add(web, job)
		n.WaitReady("web")
		wait(web, "to be stopped")
		wait(job, "")
		mend := n.Hang(fake.StopContainer, 0)
		n.Remove("web")
		wait(web, "stopping container main")
		mend()
	})
	failing := &podworkers.Explanation{TerminationRequested: true, WaitingFor: "the next attempt", LastError: "stop sandbox s1: the disk is full"}
	if got := stopWaitsFor(v1.PodRunning, failing); got != "the next attempt, after stop sandbox s1: the disk is full" {
		t.Errorf("a stop that fails waits for %q", got)
	}
	if got := stopWaitsFor(v1.PodFailed, nil); got != "" {
		t.Errorf("a pod that has failed waits for %q", got)
	}
}

// A client that is told nothing more because the agent ends learns of a drain that has ended before.
func TestCutOffDrain(t *testing.T) {
	d := newDrains()
	if step := d.cutOff(); step.Done || step.Error == "" {
		t.Errorf("a drain that has not ended: %+v", step)
	}
	d.end(nil)
	if step := d.cutOff(); !step.Done || step.Error != "" {
		t.Errorf("a drain that has ended: %+v", step)
	}
}

// What an order waits for has the error of the last step: without it, "the next attempt" is all that a user learns.
func TestOrderWaitsFor(t *testing.T) {
	worker := &podworkers.Explanation{WaitingFor: "the next attempt", LastError: "pull image app: no such host"}
	for want, e := range map[string]podwright.Explanation{
		"its next step": {},
		"the next attempt, after pull image app: no such host":           {Worker: worker},
		"the node's network is down, after pull image app: no such host": {Worker: worker, Held: "the node's network is down"},
	} {
		if got := orderWaitsFor(e); got != want {
			t.Errorf("waits for %q, want %q", got, want)
		}
	}
}
