package fake

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// Facts count what happened to one container name of one pod, over all its sandboxes
// and attempts, including removed ones. They survive Reboot and LoseRecords.
type Facts struct {
	// Created and Started count successful creations and starts.
	Created int
	Started int
	// Running is how many run now, MaxRunning the highest number so far. An engine
	// must never make either exceed 1.
	Running    int
	MaxRunning int
}

// factsOf returns the facts of key for counting in. The lock must be held.
func (f *Runtime) factsOf(key containerKey) *Facts {
	facts := f.facts[key]
	if facts == nil {
		facts = &Facts{}
		f.facts[key] = facts
	}
	return facts
}

// Facts returns the facts of a container name of a pod, as of now.
func (f *Runtime) Facts(podUID types.UID, name string) Facts {
	var facts Facts
	f.locked(func() {
		if known := f.facts[containerKey{podUID, name}]; known != nil {
			facts = *known
		}
	})
	return facts
}

// Running returns how many containers of this name of this pod run now.
func (f *Runtime) Running(podUID types.UID, name string) int { return f.Facts(podUID, name).Running }

// Doubled returns an error that names every container that ran twice at the
// same time; nil if none did.
func (f *Runtime) Doubled() error {
	var names []string
	f.locked(func() {
		for key, facts := range f.facts {
			if facts.MaxRunning > 1 {
				names = append(names, fmt.Sprintf("%s/%s (%d)", key.pod, key.name, facts.MaxRunning))
			}
		}
	})
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("containers that ran more than once at the same time: %v", names)
}

// Exit makes the running container of this name in this pod exit now, as if by itself.
// Exit.After is ignored. Without such a container it returns runtime.ErrNotFound.
func (f *Runtime) Exit(podUID types.UID, name string, exit Exit) error {
	err := fmt.Errorf("no running container %q in pod %q: %w", name, podUID, runtime.ErrNotFound)
	f.locked(func() {
		for _, c := range f.containers.all {
			if c.key == (containerKey{podUID, name}) && c.running() {
				f.end(c, exit)
				err = nil
			}
		}
	})
	_ = f.logs.flush(f)
	return err
}

// SetUnknown makes the runtime report the container as unknown until it is
// stopped or removed. It counts as not running.
func (f *Runtime) SetUnknown(containerID string) error {
	err := fmt.Errorf("container %q: %w", containerID, runtime.ErrNotFound)
	f.locked(func() {
		if c := f.containers.byID[containerID]; c != nil {
			if c.running() {
				f.factsOf(c.key).Running--
			}
			c.state = runtimeapi.ContainerState_CONTAINER_UNKNOWN
			c.run++
			c.ends = nil
			c.notify()
			err = nil
		}
	})
	return err
}

// FailSandbox makes a sandbox not ready as if its own process had died: its
// containers are killed and its addresses lost.
func (f *Runtime) FailSandbox(sandboxID string) error {
	err := fmt.Errorf("sandbox %q: %w", sandboxID, runtime.ErrNotFound)
	f.locked(func() {
		if s := f.sandboxes.byID[sandboxID]; s != nil {
			f.stopSandbox(s)
			err = nil
		}
	})
	_ = f.logs.flush(f)
	return err
}

// SetIPs replaces the addresses of a sandbox. Without addresses it has lost them.
func (f *Runtime) SetIPs(sandboxID string, ips ...netip.Addr) error {
	err := fmt.Errorf("sandbox %q: %w", sandboxID, runtime.ErrNotFound)
	f.locked(func() {
		if s := f.sandboxes.byID[sandboxID]; s != nil {
			f.addresses.release(s.ips)
			s.ips = slices.Clone(ips)
			for _, ip := range ips {
				f.addresses.used[ip] = true
			}
			err = nil
		}
	})
	return err
}

// SetConditions sets what Status reports as RuntimeReady and NetworkReady. Both are
// true at first. They change nothing else.
func (f *Runtime) SetConditions(runtimeReady, networkReady bool) {
	f.locked(func() {
		f.conditions["RuntimeReady"], f.conditions["NetworkReady"] = runtimeReady, networkReady
	})
}

// SetDown stops or restarts the runtime's daemon. While it is down, every call
// fails with runtime.ErrNotSent, those in flight fail with runtime.ErrUnavailable, and event streams
// end. Containers keep running, and stops that have begun go on.
func (f *Runtime) SetDown(down bool) {
	f.locked(func() {
		switch {
		case down && !f.down:
			close(f.downCh)
		case !down && f.down:
			f.downCh = make(chan struct{})
		}
		f.down = down
	})
}

// Reboot simulates a reboot of the node with a runtime that keeps its records:
// every sandbox is not ready, every container that ran has exited with code 255 and
// reason Unknown, and images are kept. No event is sent for it. Calls in flight
// fail as in SetDown; afterwards the runtime answers again.
func (f *Runtime) Reboot() {
	f.restart(func() {
		for _, c := range f.containers.all {
			if c.running() || c.state == runtimeapi.ContainerState_CONTAINER_UNKNOWN {
				f.end(c, Exit{Code: codeLost, Reason: "Unknown"})
			}
		}
		for _, s := range f.sandboxes.all {
			s.ready, s.ips = false, nil
		}
		f.addresses.clear()
	})
}

// LoseRecords loses all sandboxes and containers, including running ones. Images stay. No event is sent for it.
// Calls in flight fail as in SetDown; afterwards the runtime answers again.
func (f *Runtime) LoseRecords() {
	f.restart(func() {
		for _, c := range f.containers.all {
			if c.running() || c.state == runtimeapi.ContainerState_CONTAINER_UNKNOWN {
				f.end(c, Exit{Code: codeLost, Reason: "Unknown"})
			}
		}
		f.sandboxes, f.containers = newRegistry[*sandbox](), newRegistry[*container]()
		clear(f.reserved)
		f.addresses.clear()
	})
}

// restart stops the daemon, calls lose and starts the daemon again. Event streams end
// before lose, so that they show nothing of it.
func (f *Runtime) restart(lose func()) {
	f.SetDown(true)
	f.locked(func() {
		for _, st := range f.streams {
			st.ended = true
		}
		f.streams = nil
		lose()
		// Waiters hold the closed channel of the old daemon.
		f.down, f.downCh = false, make(chan struct{})
	})
	_ = f.logs.flush(f)
}

// Version returns the fake's name.
func (f *Runtime) Version(ctx context.Context, apiVersion string) (*runtimeapi.VersionResponse, error) {
	call := Call{Method: Version, Request: &runtimeapi.VersionRequest{Version: apiVersion}}
	return do(ctx, f, call, step[*runtimeapi.VersionResponse]{effect: func() (*runtimeapi.VersionResponse, error) {
		return &runtimeapi.VersionResponse{
			Version:           apiVersion,
			RuntimeName:       f.options.Name,
			RuntimeVersion:    "1.0.0",
			RuntimeApiVersion: "v1",
		}, nil
	}})
}

// Status returns the conditions, see SetConditions, and what the options say the
// runtime can do.
func (f *Runtime) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	call := Call{Method: Status, Request: &runtimeapi.StatusRequest{Verbose: verbose}}
	return do(ctx, f, call, step[*runtimeapi.StatusResponse]{effect: func() (*runtimeapi.StatusResponse, error) {
		status := &runtimeapi.RuntimeStatus{}
		for _, name := range slices.Sorted(maps.Keys(f.conditions)) {
			condition := &runtimeapi.RuntimeCondition{Type: name, Status: f.conditions[name]}
			if !condition.Status {
				condition.Reason, condition.Message = "Fake", "set by SetConditions"
			}
			status.Conditions = append(status.Conditions, condition)
		}
		return &runtimeapi.StatusResponse{Status: status, RuntimeHandlers: f.options.Handlers, Features: f.options.Features}, nil
	}})
}

// podUID returns the UID a sandbox config names.
func podUID(config *runtimeapi.PodSandboxConfig) types.UID {
	return types.UID(config.GetMetadata().GetUid())
}
