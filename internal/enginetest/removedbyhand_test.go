package enginetest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// TestContainerRemovedByHandDoesNotRunTwice: HI8, cleanup edge case 30, status.md 3.4: an operator
// removes a running container of a pod whose containers run once. The engine does not know how it
// ended, and does not run it again, in this agent or the next one.
func TestContainerRemovedByHandDoesNotRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{}))
		pod := func() *v1.Pod { return withPolicy(newPod("web", "job", "server"), v1.RestartPolicyNever) }
		r := n.agent()
		r.set(pod())
		r.phase("uid-web", v1.PodRunning, time.Minute)
		<-time.After(5 * time.Second)
		list, err := n.rt.ListContainers(t.Context(), &runtimeapi.ContainerFilter{LabelSelector: map[string]string{runtime.LabelContainerName: "job"}})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if err := n.rt.RemoveContainer(t.Context(), list[0].Id); err != nil {
			t.Fatal(err)
		}
		lost := func() error {
			for _, c := range r.pod("uid-web").Status.ContainerStatuses {
				end := c.State.Terminated
				if c.Name == "job" && (end == nil || end.ExitCode != 137 || end.Reason != "ContainerStatusUnknown") || c.Name == "server" && !c.Ready {
					return fmt.Errorf("%+v", c)
				}
			}
			return nil
		}
		for range 2 {
			r.within(time.Minute, "its end to be known", lost)
			<-time.After(5 * time.Minute)
			if err := lost(); err != nil {
				t.Error(err)
			}
			n.kill(r)
			r = n.agent()
			r.set(pod())
			r.phase("uid-web", v1.PodRunning, time.Minute)
		}
		if got := starts(n.rt, "uid-web"); got != 2 {
			t.Errorf("%d starts", got)
		}
	})
}

// TestRecordRemovedByHandKeepsItsExit: cleanup edge case 30, CK3, HI8, HI9: an operator removes a
// container, or its whole pod, from the runtime as soon as it has died. The status continues to
// show its own exit code, even in the next agent, and it does not run again.
func TestRecordRemovedByHandKeepsItsExit(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, rt *fake.Runtime, pod types.UID){
		"container": func(t *testing.T, rt *fake.Runtime, pod types.UID) { removeEnded(t, rt, pod) },
		"pod": func(t *testing.T, rt *fake.Runtime, pod types.UID) {
			removeEnded(t, rt, pod)
			boxes, err := rt.ListPodSandbox(t.Context(), nil)
			if err != nil || len(boxes) != 1 {
				t.Fatal(boxes, err)
			}
			if err := errors.Join(rt.StopPodSandbox(t.Context(), boxes[0].Id), rt.RemovePodSandbox(t.Context(), boxes[0].Id)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				scripts := map[string]fake.Script{"job": {Exit: &fake.Exit{After: 5 * time.Second, Code: 7}}}
				pod := func() *v1.Pod { return withPolicy(newPod("web", "job", "server"), v1.RestartPolicyNever) }
				if name == "pod" {
					pod = func() *v1.Pod { return withPolicy(newPod("web", "job"), v1.RestartPolicyNever) }
				}
				n := newHost(t, byContainer(scripts))
				first := n.agent()
				first.set(pod())
				ended := func(r *rig) func() error {
					return func() error {
						p := r.pod("uid-web")
						if p == nil || len(p.Status.ContainerStatuses) == 0 {
							return errors.New("no status")
						}
						for _, c := range p.Status.ContainerStatuses {
							if end := c.State.Terminated; c.Name == "job" && (end == nil || end.ExitCode != 7 || end.Reason != "Error" || c.RestartCount != 0) {
								return fmt.Errorf("%+v", c)
							}
						}
						return nil
					}
				}
				first.within(time.Minute, "its end to be known", ended(first))
				remove(t, n.rt, "uid-web")
				stays := func(r *rig) {
					t.Helper()
					for range 60 {
						<-time.After(5 * time.Second)
						synctest.Wait()
						if err := ended(r)(); err != nil {
							t.Fatal(err)
						}
					}
				}
				stays(first)
				n.kill(first)
				second := n.agent()
				second.set(pod())
				second.within(time.Minute, "the next agent to know it", ended(second))
				stays(second)
				if got := starts(n.rt, "uid-web"); got != len(pod().Spec.Containers) {
					t.Errorf("%d starts", got)
				}
			})
		})
	}
}

// removeEnded removes the containers of a pod that have ended.
func removeEnded(t *testing.T, rt *fake.Runtime, pod types.UID) {
	t.Helper()
	list, err := rt.ListContainers(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, c := range list {
		if c.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			if err := rt.RemoveContainer(t.Context(), c.Id); err != nil {
				t.Fatal(err)
			}
			removed++
		}
	}
	if removed != 1 {
		t.Fatalf("%d containers of %s have ended", removed, pod)
	}
}

// TestLostPodsFolderStopsOnlyRemovals: cleanup edge case 15, HK1: the folder of all pods is gone,
// or something different is in its place. Running pods continue, and pods stop as usual. While the
// volumes of a stopped pod are unknown, it is not finished; the plan, the log and Explain say what
// is wrong, and once the folder is back everything is removed.
func TestLostPodsFolderStopsOnlyRemovals(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		t.Run(fmt.Sprint("by a file: ", replaced), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, root := fake.New(fake.Options{}), t.TempDir()
				var lines safeLines
				r := newRig(t, rt, root, func(c *podwright.Config) { c.Observe.Logger = funcr.New(lines.add, funcr.Options{}) }).start()
				r.set(newPod("web"), newPod("gone"))
				r.phase("uid-web", v1.PodRunning, time.Minute)
				r.phase("uid-gone", v1.PodRunning, time.Minute)
				folder := filepath.Join(root, "pods")
				if err := os.RemoveAll(folder); err != nil {
					t.Fatal(err)
				}
				if replaced {
					if err := writeFile(folder); err != nil {
						t.Fatal(err)
					}
				}
				r.set(newPod("web"))
				r.within(time.Minute, "the other pod to be stopped", func() error {
					if n := rt.Running("uid-gone", "main"); n > 0 {
						return errors.New("it runs")
					}
					return nil
				})
				<-time.After(time.Minute)
				synctest.Wait()
				if starts(rt, "uid-web") != 1 || rt.Running("uid-web", "main") != 1 {
					t.Error("web was touched")
				}
				const says = "list pod folders: list pod directories: "
				_, err := r.engine.CleanupPlan(t.Context())
				if said := err != nil && strings.Contains(err.Error(), says); said != replaced {
					t.Errorf("the plan's error is %v", err)
				}
				if n := lines.count(says); (n > 0) != replaced || n > 10 {
					t.Errorf("%d lines in the log", n)
				}
				if replaced {
					if e, _ := r.engine.Explain("uid-gone"); e.Worker == nil || !strings.Contains(e.Worker.LastError, "not a directory") {
						t.Errorf("Explain: %+v", e.Worker)
					}
					if err := os.Remove(folder); err != nil {
						t.Fatal(err)
					}
				}
				r.within(10*time.Minute, "all of the other pod to go", func() error {
					if left := leftOf(r, "uid-gone"); len(left) > 0 {
						return errors.New(strings.Join(left, ", "))
					}
					_, err := r.engine.CleanupPlan(t.Context())
					return err
				})
			})
		})
	}
}

// safeLines are the lines of a log.
type safeLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *safeLines) add(prefix, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, prefix+" "+args)
}

func (l *safeLines) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}
