package podsync

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// Calls is a runtime whose calls are made for pods. It sits between the code that makes the
// calls (package runtime/pods) and the runtime, and compensates for two behaviors of runtimes:
//
//   - For a moment, lists may lack what the runtime has already answered. Calls tells the cache
//     what was done, so that it reads again before an old list decides anything (spec/pleg.md
//     D7), and keeps a step from making an object again that is not listed yet.
//   - When a start is cut off, a runtime may kill what it is starting or leave it half made.
//     Calls lets a start run to its end although its step was cancelled: otherwise an agent that
//     is updated at the wrong moment would fail the only run of a pod with policy Never. The
//     step waits only a moment for the start, but the pod does not count as stopped before the
//     start is answered (RT1, RT3).
//
// Only calls made with the context of a [Syncer]'s step count as made for a pod.
type Calls struct {
	cri.RuntimeService
	o        CallOptions
	unlisted *unlisted
	open     *openCalls
}

// Cache is told what calls for a pod have done, and reads the pod afterwards; package pleg
// implements it. The methods that take no context must not block.
type Cache interface {
	// Report reports the state into which a call has put an object.
	Report(uid types.UID, id string, state runtime.State)
	// Made and Removed report what a call has made or removed; sandboxID is empty for a
	// sandbox.
	Made(uid types.UID, id, sandboxID string)
	Removed(uid types.UID, id string)
	// Described passes on what was read of a sandbox.
	Described(uid types.UID, sandbox *runtime.SandboxStatus)
	// ReadNow lists and reads the pod, past the cache, and updates the cache. ReadObjects does
	// so without a list; it is for pods of which everything made was reported.
	ReadNow(ctx context.Context, uid types.UID) (*runtime.PodStatus, error)
	ReadObjects(ctx context.Context, uid types.UID) (*runtime.PodStatus, error)
}

// CallOptions configures [NewCalls].
type CallOptions struct {
	// Cache is told what was done, and reads the outcome. Nil means no cache.
	Cache Cache
	// BeforeStart is called before a container of the pod is started; an error prevents
	// the start. Nil means that every container may start.
	BeforeStart func(ctx context.Context, uid types.UID) error
	Clock       clock.WithDelayedExecution // nil: the real clock
}

// NewCalls wraps a runtime. [Calls.Run] must run beside the workers, with a context that ends after they
// have: otherwise a start whose step was cancelled goes on after the workers, for up to 4 min.
func NewCalls(service cri.RuntimeService, options CallOptions) *Calls {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Calls{RuntimeService: service, o: options, unlisted: newUnlisted(options.Clock), open: newOpenCalls(options.Clock)}
}

// Unwrap returns the runtime: package runtime/pods looks there for the optional abilities that Calls does not have, such as
// [cri.ResourceUpdater].
func (c *Calls) Unwrap() cri.RuntimeService { return c.RuntimeService }

// Run returns once ctx has ended and every call has returned. When ctx ends, it cancels all
// starts that are still under way, so it should outlast the code that calls the steps.
func (c *Calls) Run(ctx context.Context) error {
	<-ctx.Done()
	c.open.close()
	return nil
}

// made notes an object that every view must show from now on, and reports its state.
func (c *Calls) made(ctx context.Context, err error, id, sandboxID string, state runtime.State) {
	uid, ok := foreign.PodOf(ctx)
	if !ok || err != nil {
		return
	}
	c.unlisted.add(uid, id)
	if c.o.Cache != nil {
		c.o.Cache.Made(uid, id, sandboxID)
		c.o.Cache.Report(uid, id, state)
	}
}

// changed reports the state of an object after a call that succeeded.
func (c *Calls) changed(ctx context.Context, err error, id string, state runtime.State) {
	if uid, ok := foreign.PodOf(ctx); ok && err == nil && c.o.Cache != nil {
		c.o.Cache.Report(uid, id, state)
	}
}

// removed notes that an object is gone.
func (c *Calls) removed(ctx context.Context, err error, id string) {
	uid, ok := foreign.PodOf(ctx)
	if !ok || err != nil {
		return
	}
	c.unlisted.remove(uid, id)
	if c.o.Cache != nil {
		c.o.Cache.Removed(uid, id)
	}
}

// Read reads a pod after calls for it, past the cache, and updates the cache. It reads the objects
// that the calls are known to have made; if a call may have made something else, it lists. It
// serves as [pods.Options].Reader, and needs a Cache.
func (c *Calls) Read(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	if !c.open.needsList(uid) {
		return c.o.Cache.ReadObjects(ctx, uid)
	}
	over := c.open.unknownOutcome(uid) == nil // before the reading
	status, err := c.o.Cache.ReadNow(ctx, uid)
	if err == nil && over {
		c.open.setCertain(uid)
	}
	return status, err
}

// PodSandboxStatus reads a sandbox.
func (c *Calls) PodSandboxStatus(ctx context.Context, podSandboxID string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	response, err := c.RuntimeService.PodSandboxStatus(ctx, podSandboxID, verbose)
	if uid, ok := foreign.PodOf(ctx); ok && err == nil && response.GetStatus() != nil && c.o.Cache != nil {
		c.o.Cache.Described(uid, cri.NewSandboxStatus(response.GetStatus()))
	}
	return response, err
}

// RunPodSandbox makes and starts a sandbox.
func (c *Calls) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	return c.outlast(ctx, "RunPodSandbox", func(ctx context.Context) (string, error) {
		id, err := c.RuntimeService.RunPodSandbox(ctx, config, handler)
		c.made(ctx, err, id, "", runtime.Running)
		return id, err
	})
}

// CreateContainer makes a container.
func (c *Calls) CreateContainer(ctx context.Context, podSandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	return c.outlast(ctx, "CreateContainer", func(ctx context.Context) (string, error) {
		id, err := c.RuntimeService.CreateContainer(ctx, podSandboxID, config, sandboxConfig)
		c.made(ctx, err, id, podSandboxID, runtime.Created)
		return id, err
	})
}

// StartContainer starts a container, after [CallOptions.BeforeStart].
func (c *Calls) StartContainer(ctx context.Context, containerID string) error {
	if uid, ok := foreign.PodOf(ctx); ok && c.o.BeforeStart != nil {
		if err := c.o.BeforeStart(ctx, uid); err != nil {
			return err
		}
	}
	_, err := c.outlast(ctx, "StartContainer", func(ctx context.Context) (string, error) {
		err := c.RuntimeService.StartContainer(ctx, containerID)
		c.changed(ctx, err, containerID, runtime.Running)
		return "", err
	})
	return err
}

// StopContainer stops a container.
func (c *Calls) StopContainer(ctx context.Context, containerID string, timeout int64) error {
	err := c.RuntimeService.StopContainer(ctx, containerID, timeout)
	c.changed(ctx, err, containerID, runtime.Exited)
	return err
}

// StopPodSandbox stops a sandbox.
func (c *Calls) StopPodSandbox(ctx context.Context, podSandboxID string) error {
	err := c.RuntimeService.StopPodSandbox(ctx, podSandboxID)
	c.changed(ctx, err, podSandboxID, runtime.Exited)
	return err
}

// RemoveContainer removes a container.
func (c *Calls) RemoveContainer(ctx context.Context, containerID string) error {
	err := c.RuntimeService.RemoveContainer(ctx, containerID)
	c.removed(ctx, err, containerID)
	return err
}

// RemovePodSandbox removes a sandbox.
func (c *Calls) RemovePodSandbox(ctx context.Context, podSandboxID string) error {
	err := c.RuntimeService.RemovePodSandbox(ctx, podSandboxID)
	c.removed(ctx, err, podSandboxID)
	return err
}

// outlast makes the call of a start on a goroutine of its own, with a context that outlives
// ctx by openLimit, and waits for it until startTimeout after ctx ends. If ctx has already
// ended, it makes the call with ctx itself.
func (c *Calls) outlast(ctx context.Context, name string, call func(context.Context) (string, error)) (string, error) {
	if ctx.Err() != nil {
		return call(ctx)
	}
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	uid, _ := foreign.PodOf(ctx)
	open := c.open.begin(uid, name, cancel)
	a := &answer{done: make(chan struct{})}
	c.open.going.Go(func() {
		defer close(a.done)
		defer cancel(nil)
		a.err = errGoexit
		defer func() {
			if a.err != nil {
				c.open.setUncertain(uid) // also if the client panicked
			}
			c.open.end(uid, open, a.err, longer.Err() != nil || errors.Is(a.err, errGoexit))
		}()
		var unlisted *foreign.Calls // nil: the runtime's client already tracks its calls
		a.err = unlisted.Contain(foreign.Call{Name: name}, func() (err error) {
			a.id, err = call(longer)
			return err
		})
	})
	select {
	case <-a.done:
		return a.id, a.err
	case <-ctx.Done():
	}
	timer := c.o.Clock.AfterFunc(openLimit, func() { cancel(context.Cause(ctx)) })
	context.AfterFunc(longer, func() { timer.Stop() })
	patience := make(chan struct{})
	defer c.o.Clock.AfterFunc(startTimeout, func() { close(patience) }).Stop()
	select {
	case <-a.done:
		return a.id, a.err
	case <-patience:
		return "", &unansweredError{call: name, since: open.since, cause: context.Cause(ctx)}
	}
}

// errGoexit is the error of a call that ended its goroutine: its outcome is unknown.
var errGoexit = errors.New("the runtime's client ended its goroutine")

// answer is what a call returned, once done is closed.
type answer struct {
	done chan struct{}
	id   string
	err  error
}

// awaitListed returns an error that names an object made for the pod that the view does
// not show yet, nil if there is none.
func (c *Calls) awaitListed(uid types.UID, view *runtime.PodStatus) error {
	if c == nil {
		return nil
	}
	return c.unlisted.check(uid, view)
}

// knowsAll reports whether views of the pod show everything that the runtime has of it.
func (c *Calls) knowsAll(uid types.UID) bool {
	return c != nil && c.o.Cache != nil && !c.open.needsList(uid)
}

// unanswered returns an error that names an unanswered start of the pod; unknownOutcome also
// considers starts that were cut off and may still be completed.
func (c *Calls) unanswered(uid types.UID) error {
	if c == nil {
		return nil
	}
	return c.open.unanswered(uid)
}

func (c *Calls) unknownOutcome(uid types.UID) error {
	if c == nil {
		return nil
	}
	return c.open.unknownOutcome(uid)
}

// forget drops what is remembered of a pod that is gone.
func (c *Calls) forget(uid types.UID) {
	if c != nil {
		c.unlisted.forget(uid)
		c.open.setCertain(uid)
	}
}
