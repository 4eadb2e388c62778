package fake_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
)

// stream opens an event stream of f and returns a function that lists what
// arrived since it was last called, as "container:type" with the time since
// then, and one that ends the stream. It belongs into a synctest bubble.
func stream(t *testing.T, f *fake.Runtime) (arrived func() string, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ch := make(chan *runtimeapi.ContainerEventResponse)
	ended := make(chan error, 1)
	up := make(chan struct{})
	go func() {
		ended <- f.GetContainerEvents(ctx, ch, func(runtimeapi.RuntimeService_GetContainerEventsClient) { close(up) })
	}()
	<-up
	arrived = func() string {
		var got []string
		for {
			synctest.Wait()
			select {
			case event := <-ch:
				name := "sandbox"
				for _, c := range event.GetContainersStatuses() {
					if c.GetId() == event.GetContainerId() {
						name = c.GetMetadata().GetName()
					}
				}
				kind := strings.TrimSuffix(strings.TrimPrefix(event.GetContainerEventType().String(), "CONTAINER_"), "_EVENT")
				got = append(got, name+":"+strings.ToLower(kind))
			default:
				return strings.Join(got, " ")
			}
		}
	}
	return arrived, func() error {
		cancel()
		return <-ended
	}
}

// bubble runs a test with a fake and a sandbox in virtual time.
func bubble(t *testing.T, options fake.Options, test func(t *testing.T, f *fake.Runtime, sandboxID string)) {
	synctest.Test(t, func(t *testing.T) {
		options.Images = []fake.Image{{Ref: image}}
		f := fake.New(options)
		id, err := f.RunPodSandbox(t.Context(), sandboxConfig(0), "")
		if err != nil {
			t.Fatal(err)
		}
		test(t, f, id)
	})
}

// launch creates and starts a container.
func launch(t *testing.T, f *fake.Runtime, sandboxID, name string) string {
	t.Helper()
	id, err := f.CreateContainer(t.Context(), sandboxID, containerConfig(name, 0), sandboxConfig(0))
	if err == nil {
		err = f.StartContainer(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// pass lets virtual time pass.
func pass(t *testing.T, d time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}

// An exit wakes the stream by itself, at its moment.
func TestStreamTellsExits(t *testing.T) {
	options := scripted(fake.Script{Exit: &fake.Exit{After: time.Minute}})
	bubble(t, options, func(t *testing.T, f *fake.Runtime, s string) {
		arrived, end := stream(t, f)
		launch(t, f, s, "a")
		if got, want := arrived(), "a:created a:started"; got != want {
			t.Errorf("events %q, want %q", got, want)
		}
		pass(t, time.Minute-1)
		if got := arrived(); got != "" {
			t.Errorf("too early: %q", got)
		}
		pass(t, 1)
		if got, want := arrived(), "a:stopped"; got != want {
			t.Errorf("events %q, want %q", got, want)
		}
		if err := f.RemovePodSandbox(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		// The container's deletion comes without its status.
		if got, want := arrived(), "sandbox:stopped sandbox:deleted sandbox:deleted"; got != want {
			t.Errorf("events %q, want %q", got, want)
		}
		if err := end(); cri.Class(err) != runtime.ErrCanceled {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

// Every way to spoil a stream (spec/pleg.md 10: no replay, order or
// exactly-once promise).
func TestOnEvent(t *testing.T) {
	only := func(n int, d fake.Delivery) func(fake.Event) fake.Delivery {
		return func(e fake.Event) fake.Delivery {
			if e.Number == n {
				return d
			}
			return fake.Delivery{}
		}
	}
	for _, c := range []struct {
		name   string
		decide func(fake.Event) fake.Delivery
		now    string // after two starts
		later  string // a second later
	}{
		{"all", nil, "a:created a:started b:created b:started", ""},
		{"drop", only(2, fake.Delivery{Drop: true}), "a:created b:created b:started", ""},
		{"double", only(2, fake.Delivery{Copies: 2}), "a:created a:started a:started a:started b:created b:started", ""},
		{"delay", only(2, fake.Delivery{Delay: time.Second}), "a:created b:created b:started", "a:started"},
		{"reorder", only(1, fake.Delivery{Behind: 2}), "a:started b:created a:created b:started", ""},
		{"behind what never comes", only(4, fake.Delivery{Behind: 1}), "a:created a:started b:created", ""},
		{"change", func(e fake.Event) fake.Delivery {
			e.Response.ContainersStatuses = nil
			return fake.Delivery{}
		}, "sandbox:created sandbox:started sandbox:created sandbox:started", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, fake.Options{}, func(t *testing.T, f *fake.Runtime, s string) {
				f.OnEvent(c.decide)
				arrived, end := stream(t, f)
				launch(t, f, s, "a")
				launch(t, f, s, "b")
				if got := arrived(); got != c.now {
					t.Errorf("events %q, want %q", got, c.now)
				}
				pass(t, time.Second)
				if got := arrived(); got != c.later {
					t.Errorf("events after a second %q, want %q", got, c.later)
				}
				_ = end()
			})
		})
	}
}

// Streams have their own queues, and a restart of the runtime ends them.
func TestStreamsEndWithTheRuntime(t *testing.T) {
	for name, restart := range map[string]func(*fake.Runtime){
		"down":   func(f *fake.Runtime) { f.SetDown(true) },
		"reboot": (*fake.Runtime).Reboot,
		"wipe":   (*fake.Runtime).LoseRecords,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, func(t *testing.T, f *fake.Runtime, s string) {
				firstArrived, _ := stream(t, f)
				ch := make(chan *runtimeapi.ContainerEventResponse)
				ended := make(chan error, 1)
				go func() { ended <- f.GetContainerEvents(t.Context(), ch, nil) }()
				synctest.Wait()
				launch(t, f, s, "a") // the second stream is stuck in its send
				if got := firstArrived(); got != "a:created a:started" {
					t.Errorf("events %q", got)
				}
				restart(f)
				if err := <-ended; cri.Class(err) != runtime.ErrUnavailable {
					t.Errorf("the stream ended with %v", err)
				}
				synctest.Wait()
				calls := f.Calls(fake.Match{Method: fake.GetContainerEvents})
				for _, c := range calls {
					if !c.Done {
						t.Errorf("stream %d did not end", c.Seq)
					}
				}
			})
		})
	}
}
