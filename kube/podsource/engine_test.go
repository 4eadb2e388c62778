package podsource

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
)

// agent is an engine whose pods come from an API server.
type agent struct {
	*podwright.Engine
	stop func()
}

// startAgent runs an engine until the test ends, or stop is called. The folder outlives it.
func startAgent(t *testing.T, api *server, rt *fake.Runtime, dir string, policy *admission.SourcePolicy) agent {
	t.Helper()
	pods, err := New(Options{NodeName: "edge-1", Client: api, RevisionFile: filepath.Join(dir, "revision"), Events: api})
	if err != nil {
		t.Fatal(err)
	}
	config := podwright.Config{
		Runtime: rt, Images: rt, RootDir: filepath.Join(dir, "root"), Node: podwright.Node{Name: "edge-1"}, Sources: []syncloop.Source{pods},
	}
	config.Checkpoints.Reserve = -1
	if policy != nil {
		config.Admission.Sources = map[string]admission.SourcePolicy{syncloop.SourceAPI: *policy}
	}
	engine, err := podwright.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	var stopped bool
	stop := func() {
		if cancel(); !stopped {
			stopped = true
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return agent{engine, stop}
}

// running is a pod as the API server has it, with one container that runs on.
func running(name string, uid types.UID, revision string) v1.Pod {
	p := pod(name, uid, revision)
	p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(5))
	p.Spec.Containers = []v1.Container{{Name: "app", Image: "example.com/app:1"}}
	return p
}

// facts fails unless the containers of a pod were started so often, and run or not.
func facts(t *testing.T, when string, rt *fake.Runtime, uid types.UID, started, runs int) {
	t.Helper()
	if f := rt.Facts(uid, "app"); f.Started != started || f.Running != runs || f.MaxRunning > 1 {
		t.Errorf("%s: pod %s %+v, want %d starts, %d running", when, uid, f, started, runs)
	}
}

// TestEngineRunsWhatTheAPIWants (KS4, KS5, KS6): an outage of hours and the list after it
// cost only the pod that the list lacks; a successor of the same name starts when its
// forerunner has ended.
func TestEngineRunsWhatTheAPIWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, rt := newServer(), fake.New(fake.Options{})
		a, b, c := running("a", "1", "90"), running("b", "2", "91"), running("c", "3", "92")
		api.set("100", nil, a, b, c)
		startAgent(t, api, rt, t.TempDir(), nil)
		after(time.Minute)
		api.set("100", errors.New("connection refused"))
		api.breakWatch()
		after(3 * time.Hour)
		for _, uid := range []types.UID{"1", "2", "3"} {
			facts(t, "after hours without API server", rt, uid, 1, 1)
		}
		stops := func() (pods []string) {
			for _, call := range rt.Calls(fake.Match{Method: fake.StopContainer}) {
				pods = append(pods, string(call.PodUID))
			}
			return pods
		}
		if got := stops(); len(got) != 0 {
			t.Errorf("containers of %q were stopped meanwhile", got)
		}
		api.set("300", nil, a, running("c", "4", "250"))
		after(2 * time.Minute)
		facts(t, "in the list still", rt, "1", 1, 1)
		facts(t, "not in the list", rt, "2", 1, 0)
		facts(t, "succeeded", rt, "3", 1, 0)
		facts(t, "the successor", rt, "4", 1, 1)
		got := stops()
		slices.Sort(got)
		if !slices.Equal(got, []string{"2", "3"}) {
			t.Errorf("containers stopped of %q, want once of each pod that went", got)
		}
		ended := rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: "3"})[0].End
		if began := rt.Calls(fake.Match{Method: fake.StartContainer, PodUID: "4"})[0].Start; began.Before(ended) {
			t.Errorf("the successor started %s before the end of its forerunner", ended.Sub(began))
		}
	})
}

// TestAgentStartsWithoutAPI (KS10): an agent that starts while the API server is away keeps
// what runs, and after a reboot runs it from its journal. The first list continues the
// pods: none starts twice, and one deleted meanwhile goes.
func TestAgentStartsWithoutAPI(t *testing.T) {
	for _, reboot := range []bool{false, true} {
		t.Run(map[bool]string{false: "agent", true: "machine"}[reboot], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, rt, dir := newServer(), fake.New(fake.Options{}), t.TempDir()
				a, b := running("a", "1", "90"), running("b", "2", "91")
				api.set("100", nil, a, b)
				first := startAgent(t, api, rt, dir, nil)
				after(time.Minute)
				api.set("100", errors.New("connection refused"))
				first.stop()
				starts := 1
				if reboot {
					starts = 2
					rt.LoseRecords()
				}
				second := startAgent(t, api, rt, dir, nil)
				after(time.Hour)
				facts(t, "without API server", rt, "1", starts, 1)
				facts(t, "without API server", rt, "2", starts, 1)
				if _, shown := second.Pod("1"); !shown {
					t.Error("the engine does not show the pod")
				}
				api.set("200", nil, a)
				after(2 * time.Minute)
				facts(t, "with it", rt, "1", starts, 1)
				facts(t, "deleted meanwhile", rt, "2", starts, 0)
			})
		})
	}
}

// TestRewoundAPIKeepsPods (KS7, KS8): an API server restored from a backup, which lacks a
// pod that runs, does not stop it for a minute, also when the agent starts again meanwhile.
func TestRewoundAPIKeepsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, rt, dir := newServer(), fake.New(fake.Options{}), t.TempDir()
		api.set("500", nil, running("a", "1", "400"))
		first := startAgent(t, api, rt, dir, nil)
		after(time.Minute)
		first.stop()
		api.set("300", nil)
		startAgent(t, api, rt, dir, nil)
		after(50 * time.Second)
		facts(t, "older", rt, "1", 1, 1)
		after(2 * time.Minute)
		facts(t, "older for more than a minute", rt, "1", 1, 0)
	})
}

// TestPolicyBindsTheAPI (PS4): the policy of the source counts for the pods of an API
// server as for any others.
func TestPolicyBindsTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, rt := newServer(), fake.New(fake.Options{})
		plain, privileged := running("plain", "1", "90"), running("privileged", "2", "91")
		privileged.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: ptr.To(true)}
		api.set("100", nil, plain, privileged)
		engine := startAgent(t, api, rt, t.TempDir(), &admission.SourcePolicy{Security: admission.SecurityBaseline})
		after(time.Minute)
		late := running("late", "3", "110")
		late.Spec.HostNetwork = true
		api.send(watch.Added, &late)
		after(time.Minute)
		facts(t, "plain", rt, "1", 1, 1)
		for _, uid := range []types.UID{"2", "3"} {
			facts(t, "forbidden", rt, uid, 0, 0)
			pod, shown := engine.Pod(uid)
			if !shown || pod.Status.Phase != v1.PodFailed || !strings.Contains(pod.Status.Message, "baseline") {
				t.Errorf("pod %s: shown %t, %+v", uid, shown, pod)
			}
		}
	})
}
