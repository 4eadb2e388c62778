package imagegc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
)

const (
	// removeTimeout bounds the removal of one image, quickTimeout one under pressure.
	removeTimeout = 2 * time.Minute
	quickTimeout  = 30 * time.Second
	// reclaimTime bounds a run under pressure, because an eviction waits for it.
	reclaimTime = time.Minute
	// maxHung is how many removals of one run may take too long: then the runtime hangs, rather than an image.
	maxHung = 2
	// perSecond bounds removals, so that they never starve the runtime (DR6).
	perSecond = 5
)

// Store is the runtime's image store, such as a cri.ImageService. Calls may come from several
// goroutines at once and may block; they should end with ctx. Removing an image that is already
// gone is success.
type Store interface {
	ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error)
	RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error
}

// Containers lists all containers, including dead ones and those of other owners; the filter is
// nil. It is called like [Store].
type Containers interface {
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
}

// Options configures a [Collector].
type Options struct {
	// Store is where the images are. Required.
	Store Store
	// Containers says which images are in use. Required.
	Containers Containers
	// Disk reads the usage of the file system that holds the images. A call that does not return is not
	// repeated, and a run waits 10 s for it at most. Nil: only age counts.
	Disk func(ctx context.Context) (Disk, error)
	// Policy says when images are removed.
	Policy Policy
	// Period is the time between two runs. 0 means 5 min.
	Period time.Duration
	// Desired returns the image names of desired pods, started or not (IG11), of pods that have
	// not stopped yet, and names or IDs of what containers have mounted as volumes (IG2). It must
	// not block. Nil means none.
	Desired func() []string
	// Keep returns names of images that are always kept, such as the sandbox image if the runtime
	// does not pin it. Nil means none.
	Keep func(ctx context.Context) ([]string, error)
	// Permits is asked right before an image is removed; an image that it refuses stays until a
	// later run (DR5). It must not block: while it has not decided, it returns false and open, and
	// is asked again for up to 10 s. Nil: everything is permitted.
	Permits func(choice Choice, now time.Time) (permitted, open bool)
	// Left is called after a run with the names and IDs of the remaining images, so that records of
	// the others can be dropped (IG9). Nil: not called.
	Left func(ctx context.Context, names []string)

	// NodeName is the name of the node that events are about.
	NodeName string
	// Recorder receives events. Nil drops them.
	Recorder podinfo.EventRecorder
	// Clock is the collector's time. Nil means the real clock.
	Clock clock.WithTicker
	// Logger is silent by default.
	Logger logr.Logger
	// Meter receives metrics. Nil drops them.
	Meter metric.Meter
}

// Report is what one run did.
type Report struct {
	// Plan is the plan of the run.
	Plan Plan
	// Removed are the keys of the images that were removed; Freed is their size.
	Removed []string
	Freed   uint64
}

// Collector removes unused images. Create one with [New]; all methods are safe for concurrent use.
type Collector struct {
	options Options
	removed metric.Int64Counter
	calls   *foreign.Calls

	// turn is held by a run, and guards failures and hung.
	turn     chan struct{}
	failures int // consecutive failed runs
	// hung holds the keys of the images whose last removal took too long.
	hung map[string]bool
	// reclaims is how many runs under pressure wait for their turn or have it.
	reclaims atomic.Int32

	mu      sync.Mutex
	started time.Time
	images  map[string]history
}

// history says when an image was first seen and last used.
type history struct{ firstSeen, lastUsed time.Time }

// New returns a collector, or an error that names every problem of the options.
func New(o Options) (*Collector, error) {
	var problems []error
	if o.Store == nil || o.Containers == nil {
		problems = append(problems, errors.New("Store and Containers are required"))
	}
	var err error
	if o.Policy, err = o.Policy.complete(); err != nil {
		problems = append(problems, err)
	}
	if o.Period < 0 {
		problems = append(problems, fmt.Errorf("a period of %v is negative", o.Period))
	}
	if o.Period == 0 {
		o.Period = DefaultPeriod
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	set := instrument.New(o.Meter)
	removed := set.Counter("kubelet_image_garbage_collected_total", "Unused images removed, by reason.", instrument.By("reason", "age", "space"))
	if err := set.Err(); err != nil {
		problems = append(problems, fmt.Errorf("metrics: %w", err))
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("image garbage collection: %w", errors.Join(problems...))
	}
	return &Collector{
		options: o, removed: removed, calls: foreign.New(o.Clock), turn: make(chan struct{}, 1),
		hung: map[string]bool{}, started: o.Clock.Now(), images: map[string]history{},
	}, nil
}

// Run looks at the images at once, to record when it first saw them, and then collects every Period
// until ctx ends. Failures are logged and retried. If the policy never removes anything, Run only
// looks, so that a [Collector.Reclaim] knows how old the images are. The error is that of ctx.
func (c *Collector) Run(ctx context.Context) error {
	c.look(ctx)
	ticker := c.options.Clock.NewTicker(c.options.Period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
		if c.options.Policy.HighPercent == 100 && c.options.Policy.MaxAge == 0 {
			c.look(ctx)
			continue
		}
		switch _, err := c.Collect(ctx); {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, errGivesWay):
			c.options.Logger.Info("Image garbage collection stopped early", "reason", err.Error())
		default:
			c.options.Logger.Error(err, "Image garbage collection failed")
		}
	}
}

// look records which images there are.
func (c *Collector) look(ctx context.Context) {
	if _, err := c.observe(ctx); err != nil && ctx.Err() == nil {
		c.options.Logger.Error(err, "Images cannot be listed")
	}
}

// Plan says what a run would do now, and why (DR1). It removes nothing.
func (c *Collector) Plan(ctx context.Context) (Plan, error) {
	in, err := c.input(ctx, false)
	return decide(in), err
}

// Collect makes one run. The error joins everything that went wrong; an image that cannot be
// removed does not stop the others (IG6), but the run ends early if two removals take too long, or
// if a Reclaim waits for it.
func (c *Collector) Collect(ctx context.Context) (Report, error) { return c.run(ctx, false) }

// Reclaim removes all images that may be removed, however empty the disk is. An eviction manager
// calls it before it evicts (IG8). It begins no removal after 1 min; then the error says how many
// images are left to the next call.
func (c *Collector) Reclaim(ctx context.Context) (Report, error) {
	c.reclaims.Add(1)
	defer c.reclaims.Add(-1)
	return c.run(ctx, true)
}

func (c *Collector) run(ctx context.Context, pressure bool) (Report, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return Report{}, ctx.Err()
	}
	in, err := c.input(ctx, pressure)
	r := Report{Plan: decide(in)}
	if in.Images == nil {
		c.account(ctx, err)
		return r, err
	}
	executeErr, early := c.execute(ctx, &r, in)
	err = errors.Join(err, executeErr)
	c.account(ctx, err)
	return r, errors.Join(err, early)
}

// account counts failed runs; the first one in a row emits no event (IG7).
func (c *Collector) account(ctx context.Context, err error) {
	if err == nil {
		c.failures = 0
		return
	}
	if ctx.Err() != nil {
		return
	}
	if c.failures++; c.failures > 1 {
		c.event("ImageGCFailed", "image garbage collection failed %d times in a row: %s", c.failures, podinfo.EventText(err))
	}
}

// Problems returns the functions of the options that do not return or that panic.
func (c *Collector) Problems() []problem.Problem { return c.calls.Problems() }

// input reads everything that a plan needs. If the images cannot be listed there are none; if the
// disk cannot be read, only age counts.
func (c *Collector) input(ctx context.Context, pressure bool) (input, error) {
	in := input{Policy: c.options.Policy, Pressure: pressure, Started: c.started}
	var err error
	if in.Images, err = c.observe(ctx); err != nil {
		return in, err
	}
	if c.options.Disk != nil {
		call := foreign.Call{Kind: problem.Function, Name: "ImageGC.Disk", Patience: problem.FunctionLimit}
		disk, diskErr := foreign.Ask(ctx, c.calls, call, foreign.Limits{Wait: problem.FunctionLimit, Join: true}, c.options.Disk)
		switch {
		case diskErr != nil:
			err = fmt.Errorf("usage of the image file system: %w", diskErr)
		case disk.Capacity == 0:
			err = errors.New("usage of the image file system: its capacity is 0")
			c.event("InvalidDiskCapacity", "the image file system reports a capacity of 0")
		default:
			in.Disk = &disk
		}
	}
	in.Now = c.options.Clock.Now()
	return in, err
}

// pause limits the rate of removals.
func (c *Collector) pause(ctx context.Context) bool {
	return timing.Sleep(ctx, c.options.Clock, time.Second/perSecond) == nil
}

func (c *Collector) remove(ctx context.Context, choice Choice, limit time.Duration) error {
	delete(c.hung, choice.Image.Key)
	began := c.options.Clock.Now()
	ctx, cancel := timing.WithTimeout(ctx, c.options.Clock, limit)
	defer cancel()
	id, handler, _ := strings.Cut(choice.Image.Key, ",")
	c.options.Logger.Info("Removing image", "image", title(choice.Image), "size", choice.Image.Size, "reason", choice.Reason)
	if err := c.options.Store.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: id, RuntimeHandler: handler}); err != nil {
		if c.options.Clock.Since(began) >= quickTimeout {
			c.hung[choice.Image.Key] = true
		}
		return err
	}
	c.mu.Lock()
	delete(c.images, choice.Image.Key)
	c.mu.Unlock()
	c.removed.Add(ctx, 1, instrument.Labels("reason", string(choice.Cause)))
	return nil
}

// left reports which images remain.
func (c *Collector) left(ctx context.Context, r *Report) {
	if c.options.Left == nil {
		return
	}
	var names []string
	for _, choice := range r.Plan.Choices {
		if !slices.Contains(r.Removed, choice.Image.Key) {
			id, _, _ := strings.Cut(choice.Image.Key, ",")
			names = append(append(names, id), choice.Image.Names...)
		}
	}
	c.options.Left(ctx, names)
}

func (c *Collector) event(reason, format string, args ...any) {
	if c.options.Recorder != nil {
		node := podinfo.NodeReference(c.options.NodeName)
		c.options.Recorder.Eventf(node, v1.EventTypeWarning, reason, format, args...)
	}
}

// title returns the name by which users know an image.
func title(i Image) string {
	if len(i.Names) > 0 {
		return i.Names[0]
	}
	return i.Key
}
