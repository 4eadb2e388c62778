package enginetest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// records returns the states of a pod's containers at the runtime, newest first.
func (r *rig) records(pod *v1.Pod) (out []string) {
	r.t.Helper()
	status, err := cri.NewView(r.runtime, cri.ViewOptions{}).Read(r.t.Context(), pod.UID)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range status.Containers {
		out = append(out, fmt.Sprint(c.RestartCount, c.State))
	}
	return out
}

// spec/syncloop.md PE2, spec/runtime.md 19.6: if a container keeps crashing, only its newest dead
// instance exists at any time, not just once a minute, and this starts nothing.
func TestDeadContainersGoSoon(t *testing.T) {
	for _, keep := range []int{0, 2} {
		t.Run(fmt.Sprint("keep ", keep), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
					return fake.Script{Exit: &fake.Exit{After: time.Second, Code: 1}}
				}})
				r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
					c.Pods.CrashLoopBackOff = pods.BackOffPolicy{Initial: time.Second, Max: time.Second}
					c.Storage.DeadContainers.PerName = keep
				}).start()
				pod := newPod("crashing")
				r.set(pod)
				r.phase(pod.UID, v1.PodRunning, time.Minute)
				most := 0
				for range 50 {
					<-time.After(500 * time.Millisecond)
					synctest.Wait()
					dead := 0
					for _, record := range r.records(pod) {
						if strings.HasSuffix(record, "exited") {
							dead++
						}
					}
					most = max(most, dead)
				}
				if want := max(keep, 1); most > want+1 || most < want {
					t.Errorf("19.6: up to %d dead containers, want %d", most, want)
				}
				status := r.pod(pod.UID).Status.ContainerStatuses[0]
				if status.LastTerminationState.Terminated == nil || status.RestartCount < 5 {
					t.Errorf("the status has lost its last run: %+v", status)
				}
				if err := rt.Doubled(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// spec/runtime.md 18.4, 18.2: the engine rotates logs with no call except the reopening, and makes
// links where the configuration asks for them.
func TestLogsRotateWithoutExtraCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{WriteLogs: true, Script: func(fake.Launch) fake.Script {
			return fake.Script{Log: []fake.Line{{Every: time.Second, Text: strings.Repeat("x", 1000)}}}
		}})
		root, links := t.TempDir(), filepath.Join(t.TempDir(), "links")
		r := newRig(t, rt, root, func(c *podwright.Config) {
			c.Storage.LogRotation = pods.LogRotation{MaxSize: 15_000, MaxFiles: 3}
			c.Storage.LogLinkDir = links
		}).start()
		pod := newPod("talks")
		r.set(pod)
		r.phase(pod.UID, v1.PodRunning, time.Minute)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		names, err := filepath.Glob(filepath.Join(root, "logs", "*", "*", "0.log*"))
		if err != nil || len(names) != 3 {
			t.Errorf("18.4: logs %v, err %v", names, err)
		}
		if n := len(rt.Calls(fake.Match{Method: fake.ReopenContainerLog})); n < 20 || n > 40 {
			t.Errorf("18.4: %d rotations in 10 min", n)
		}
		made, err := os.ReadDir(links)
		if err != nil || len(made) != 1 || !strings.HasPrefix(made[0].Name(), "talks_default_") {
			t.Errorf("18.2: links %v, err %v", made, err)
		}
		r.set()
		r.empty(2 * time.Minute)
		r.within(time.Minute, "links and logs go", func() error {
			left, err := filepath.Glob(filepath.Join(root, "logs", "*"))
			made, _ := os.ReadDir(links)
			if len(left)+len(made) > 0 || err != nil {
				return fmt.Errorf("%v, %v, err %w", left, made, err)
			}
			return nil
		})
	})
}

// spec/cleanup.md CG7: the engine emits an event on the node for a failed garbage collection.
func TestFailedCollectionIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
			return fake.Script{Exit: &fake.Exit{After: time.Second, Code: 1}}
		}})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Storage.DeadContainers.MinAge = time.Minute }).start()
		defer rt.Inject(fake.Fault{Match: fake.Match{Method: fake.RemoveContainer}, Effect: fake.Effect{Err: errors.New("busy")}})()
		r.set(newPod("crashing"))
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if n := r.events.count("n1 ContainerGCFailed"); n < 1 || n > 5 {
			t.Errorf("CG7: %d events in 5 min", n)
		}
	})
}

// New refuses settings that cannot work, and names each.
func TestImpossibleLogSettingsAreRefused(t *testing.T) {
	rt := fake.New(fake.Options{})
	for want, change := range map[string]func(*podwright.Config){
		"LogRotation":           func(c *podwright.Config) { c.Storage.LogRotation.MaxFiles = 1 },
		"LinkDir":               func(c *podwright.Config) { c.Storage.LogLinkDir = "relative" },
		"DeadContainers.MinAge": func(c *podwright.Config) { c.Storage.DeadContainers.MinAge = -1 },
		"StandInAfter":          func(c *podwright.Config) { c.Storage.StandInAfter = -1 },
	} {
		config := podwright.Config{Runtime: rt, Images: rt, Sources: []syncloop.Source{source.NewChannel(source.ChannelOptions{NodeName: "n1"})}, RootDir: t.TempDir(), Node: podwright.Node{Name: "n1"}}
		change(&config)
		if _, err := podwright.New(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: err %v", want, err)
		}
	}
}

// spec/syncloop.md PE3, PE4, edge case 30: a removal that hangs holds up nothing: the queue fills,
// the container restarts as usual, and garbage collection removes the rest later, once the engine
// knows how each container ended.
func TestHangingRemovalHoldsUpNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
			return fake.Script{Exit: &fake.Exit{After: time.Second, Code: 1}}
		}})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Pods.CrashLoopBackOff = pods.BackOffPolicy{Initial: time.Second, Max: time.Second}
		}).start()
		release := rt.Inject(fake.Fault{Match: fake.Match{Method: fake.RemoveContainer}, Effect: fake.Effect{Hang: true}})
		pod := newPod("crashing")
		r.set(pod)
		r.phase(pod.UID, v1.PodRunning, time.Minute)
		<-time.After(3 * time.Minute)
		synctest.Wait()
		restarts := r.pod(pod.UID).Status.ContainerStatuses[0].RestartCount
		if n := len(r.records(pod)); restarts < 60 || n < 60 {
			t.Errorf("PE3: %d restarts and %d containers in 3 min: something waited for the removals", restarts, n)
		}
		release()
		r.within(10*time.Minute, "edge 30: the rest goes", func() error {
			if n := len(r.records(pod)); n > 3 {
				return fmt.Errorf("%d containers", n)
			}
			return nil
		})
		status := r.pod(pod.UID).Status.ContainerStatuses[0]
		if status.LastTerminationState.Terminated == nil || status.LastTerminationState.Terminated.ExitCode != 1 {
			t.Errorf("PE4: how it ended is lost: %+v", status)
		}
	})
}
