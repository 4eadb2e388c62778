package objects

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/backoff"
)

// Pauses before a watch that ended is begun again. One that lasted for steadyAfter begins again
// after the first pause.
const (
	pauseMin    = time.Second
	pauseMax    = 30 * time.Second
	steadyAfter = time.Minute
)

// reflection keeps a store as the API server has it.
type reflection struct {
	// name is for logs.
	name string
	// example has the type of the objects.
	example k8sruntime.Object
	list    cache.ListWithContextFunc
	watch   cache.WatchFuncWithContext
	// client tells whether it can stream lists.
	client any
	store  cache.ReflectorStore
	// failed is told each request that failed. Nil: only logs are.
	failed func(err error)
	clock  clock.Clock
	logger logr.Logger
}

// run reflects until ctx ends. Lost watches and failed requests begin again.
func (r reflection) run(ctx context.Context) {
	// The reflector's own messages go nowhere: r logs what fails.
	silent := logr.Discard()
	ctx = klog.NewContext(ctx, silent)
	reflector := cache.NewReflectorWithOptions(r.requests(), r.example, r.store, cache.ReflectorOptions{
		Logger: &silent, Name: r.name, TypeDescription: r.name, Clock: r.clock,
	})
	var pause time.Duration
	for {
		began := r.clock.Now()
		if err := reflector.ListAndWatchWithContext(ctx); err != nil && ctx.Err() == nil {
			r.logger.V(1).Info("Reading from the API server failed", "what", r.name, "error", err.Error())
		}
		if r.clock.Since(began) >= steadyAfter {
			pause = 0
		}
		pause = backoff.Next(pauseMin, pauseMax, pause)
		if !sleep(ctx, r.clock, pause) {
			return
		}
	}
}

// requests makes the requests and notes which fail: the reflector repeats some by itself.
func (r reflection) requests() cache.ListerWatcher {
	note := func(ctx context.Context, err error) {
		if err != nil && ctx.Err() == nil && r.failed != nil {
			r.failed(err)
		}
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (k8sruntime.Object, error) {
			list, err := r.list(ctx, o)
			note(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := r.watch(ctx, o)
			note(ctx, err)
			return w, err
		},
	}, r.client)
}

// sleep reports whether the pause has passed before ctx ended.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) bool {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}
