package fake_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	testclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// world is a fake under a random history of calls and mishaps.
type world struct {
	*rapid.T
	*fake.Runtime
	ctx   context.Context
	clock *testclock.FakeClock
	// ended are the statuses of containers seen exited: they never change.
	ended map[string]string
}

// Whatever happens, what the fake shows is possible.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{T: rt, ctx: t.Context(), clock: testclock.NewFakeClock(start), ended: map[string]string{}}
		w.Runtime = fake.New(fake.Options{
			Clock:  w.clock,
			Images: []fake.Image{{Ref: image}},
			Script: func(fake.Launch) fake.Script {
				s := fake.Script{
					IgnoreTERM: rapid.Bool().Draw(rt, "ignore TERM"),
					OnTERM:     fake.Exit{After: w.seconds("TERM after"), Code: 7},
				}
				if rapid.Bool().Draw(rt, "exits") {
					s.Exit = &fake.Exit{After: w.seconds("exit after"), Code: 3}
				}
				return s
			},
		})
		rt.Repeat(map[string]func(*rapid.T){
			"":                 func(*rapid.T) { w.check() },
			"run sandbox":      func(*rapid.T) { w.runSandbox() },
			"create container": func(*rapid.T) { w.create() },
			"container call":   func(*rapid.T) { w.containerCall() },
			"sandbox call":     func(*rapid.T) { w.sandboxCall() },
			"step":             func(*rapid.T) { w.clock.Step(w.seconds("step")) },
			"mishap":           func(*rapid.T) { w.mishap() },
		})
	})
}

func (w *world) seconds(label string) time.Duration {
	return time.Duration(rapid.IntRange(0, 10).Draw(w.T, label)) * time.Second
}

func (w *world) lists() ([]*runtimeapi.PodSandbox, []*runtimeapi.Container) {
	sandboxes, err := w.ListPodSandbox(w.ctx, nil)
	if err != nil {
		w.Fatal(err)
	}
	containers, err := w.ListContainers(w.ctx, nil)
	if err != nil {
		w.Fatal(err)
	}
	return sandboxes, containers
}

// allow fails on an error of any class but these.
func (w *world) allow(err error, classes ...error) {
	if err == nil {
		return
	}
	for _, class := range classes {
		if errors.Is(err, class) {
			return
		}
	}
	w.Fatal(err)
}

func (w *world) pod() *runtimeapi.PodSandboxConfig {
	config := sandboxConfig(uint32(rapid.IntRange(0, 2).Draw(w.T, "sandbox attempt")))
	config.Metadata.Uid = fmt.Sprint(rapid.IntRange(1, 2).Draw(w.T, "pod"))
	return config
}

func (w *world) runSandbox() {
	_, err := w.RunPodSandbox(w.ctx, w.pod(), "")
	w.allow(err, runtime.ErrAlreadyExists)
}

// anySandbox returns one of the sandboxes, or an unknown ID.
func (w *world) anySandbox() string {
	sandboxes, _ := w.lists()
	i := rapid.IntRange(0, len(sandboxes)).Draw(w.T, "sandbox")
	if i == len(sandboxes) {
		return "nobody"
	}
	return sandboxes[i].GetId()
}

// anyContainer returns one of the containers, or an unknown ID.
func (w *world) anyContainer() string {
	_, containers := w.lists()
	i := rapid.IntRange(0, len(containers)).Draw(w.T, "container")
	if i == len(containers) {
		return "nobody"
	}
	return containers[i].GetId()
}

func (w *world) create() {
	config := containerConfig(rapid.SampledFrom([]string{"a", "b"}).Draw(w.T, "name"), uint32(rapid.IntRange(0, 3).Draw(w.T, "attempt")))
	id, err := w.CreateContainer(w.ctx, w.anySandbox(), config, sandboxConfig(0))
	w.allow(err, runtime.ErrAlreadyExists, runtime.ErrNotFound, runtime.ErrFailedPrecondition)
	if err == nil && rapid.Bool().Draw(w.T, "start") {
		w.allow(w.StartContainer(w.ctx, id))
	}
}

func (w *world) containerCall() {
	id := w.anyContainer()
	switch rapid.IntRange(0, 3).Draw(w.T, "call") {
	case 0:
		w.allow(w.StartContainer(w.ctx, id), runtime.ErrNotFound, runtime.ErrFailedPrecondition)
	case 1:
		w.allow(w.StopContainer(w.ctx, id, 0), runtime.ErrNotFound)
	case 2:
		// A caller that gives up; the stop goes on.
		ctx, cancel := context.WithCancel(w.ctx)
		remove := w.Inject(fake.Fault{
			Match:  fake.Match{Func: func(fake.Call) bool { cancel(); return true }},
			Times:  1,
			Effect: fake.Effect{Hang: true, Done: true, Late: w.seconds("late")},
		})
		err := w.StopContainer(ctx, id, 5)
		remove()
		w.allow(err, runtime.ErrNotFound, runtime.ErrCanceled)
	case 3:
		w.allow(w.RemoveContainer(w.ctx, id))
	}
}

func (w *world) sandboxCall() {
	id := w.anySandbox()
	if rapid.Bool().Draw(w.T, "stop") {
		w.allow(w.StopPodSandbox(w.ctx, id))
		return
	}
	w.allow(w.RemovePodSandbox(w.ctx, id))
}

func (w *world) mishap() {
	switch rapid.IntRange(0, 5).Draw(w.T, "mishap") {
	case 0:
		w.Reboot()
	case 1:
		w.LoseRecords()
	case 2:
		w.SetDown(true)
		w.SetDown(false)
	case 3:
		w.allow(w.FailSandbox(w.anySandbox()), runtime.ErrNotFound)
	case 4:
		w.allow(w.Exit("1", "a", fake.Exit{Code: 9}), runtime.ErrNotFound)
	case 5:
		// An exit that was seen is not taken back.
		if id := w.anyContainer(); w.ended[id] == "" {
			w.allow(w.SetUnknown(id), runtime.ErrNotFound)
		}
	}
}

// check compares everything that the fake shows for consistency.
func (w *world) check() {
	sandboxes, containers := w.lists()
	ready, addresses, names := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range sandboxes {
		response, err := w.PodSandboxStatus(w.ctx, s.GetId(), false)
		w.allow(err)
		st := response.GetStatus()
		ready[s.GetId()] = st.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
		ip := st.GetNetwork().GetIp()
		if (ip != "") != ready[s.GetId()] {
			w.Fatalf("sandbox %v with address %q", st.GetState(), ip)
		}
		if ip != "" && addresses[ip] {
			w.Fatalf("address %s twice", ip)
		}
		addresses[ip] = true
		if name := s.GetMetadata().String(); names[name] {
			w.Fatalf("sandbox %s twice", name)
		} else {
			names[name] = true
		}
	}
	w.checkContainers(containers, ready)
}

func (w *world) checkContainers(containers []*runtimeapi.Container, ready map[string]bool) {
	type key struct{ pod, name string }
	running := map[key]int{}
	before := int64(0)
	for _, c := range containers {
		response, err := w.ContainerStatus(w.ctx, c.GetId(), false)
		w.allow(err)
		st := response.GetStatus()
		if _, exists := ready[c.GetPodSandboxId()]; !exists {
			w.Fatalf("container %s outlives its sandbox", c.GetId())
		}
		if st.GetCreatedAt() <= before {
			w.Fatal("containers are not listed in the order of strict creation times")
		}
		before = st.GetCreatedAt()
		exited := st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED
		if exited != (st.GetFinishedAt() != 0) || exited && (st.GetStartedAt() < 0 || st.GetFinishedAt() < st.GetStartedAt()) {
			w.Fatalf("status %v", st)
		}
		if st.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			if !ready[c.GetPodSandboxId()] {
				w.Fatalf("container %s runs in a sandbox that is not ready", c.GetId())
			}
			sandbox, err := w.PodSandboxStatus(w.ctx, c.GetPodSandboxId(), false)
			w.allow(err)
			running[key{sandbox.GetStatus().GetMetadata().GetUid(), st.GetMetadata().GetName()}]++
		}
		if was := w.ended[c.GetId()]; was != "" && was != st.String() {
			w.Fatalf("an exited container changed:\n%s\n%s", was, st)
		}
		if exited {
			w.ended[c.GetId()] = st.String()
		}
	}
	for _, pod := range []string{"1", "2"} {
		for _, name := range []string{"a", "b"} {
			facts := w.Facts(types.UID(pod), name)
			if facts.Running != running[key{pod, name}] || facts.MaxRunning < facts.Running || facts.Created < facts.Started {
				w.Fatalf("facts of %s/%s: %+v, listed running: %d", pod, name, facts, running[key{pod, name}])
			}
		}
	}
}
