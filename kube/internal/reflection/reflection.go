package reflection

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
)

// Pauses before a reflection that ended is begun again. One that lasted for steadyAfter
// begins again after the first pause.
const (
	pauseMin    = time.Second
	pauseMax    = 30 * time.Second
	steadyAfter = time.Minute
)

// Reflection is what to reflect, and where. All fields but Failed and Logger are required.
type Reflection struct {
	// Name is for logs.
	Name string
	// Example has the type of the objects.
	Example apiruntime.Object
	List    cache.ListWithContextFunc
	Watch   cache.WatchFuncWithContext
	// Client tells whether it can stream lists: fakes cannot.
	Client any
	Store  cache.ReflectorStore
	// Failed is told of each request that failed, but for those that ctx ended. It must
	// not block.
	Failed func(err error)
	Clock  clock.Clock
	Logger logr.Logger
}

// Run reflects until ctx ends. Lost watches and failed requests begin again, after 1 s,
// doubling up to 30 s.
func (r Reflection) Run(ctx context.Context) {
	silent := logr.Discard()
	ctx = klog.NewContext(ctx, silent)
	reflector := cache.NewReflectorWithOptions(r.requests(), r.Example, r.Store, cache.ReflectorOptions{
		Logger: &silent, Name: r.Name, TypeDescription: r.Name, Clock: r.Clock,
	})
	var pause time.Duration
	for {
		began := r.Clock.Now()
		if err := reflector.ListAndWatchWithContext(ctx); err != nil && ctx.Err() == nil {
			r.Logger.V(1).Info("Reading from the API server failed", "what", r.Name, "error", err.Error())
		}
		if r.Clock.Since(began) >= steadyAfter {
			pause = 0
		}
		pause = backoff.Next(pauseMin, pauseMax, pause)
		if timing.Sleep(ctx, r.Clock, pause) != nil {
			return
		}
	}
}

// requests makes the requests and notes which fail: the reflector repeats some by itself.
func (r Reflection) requests() cache.ListerWatcher {
	note := func(ctx context.Context, err error) {
		if err != nil && ctx.Err() == nil && r.Failed != nil {
			r.Failed(err)
		}
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (apiruntime.Object, error) {
			list, err := r.List(ctx, o)
			note(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := r.Watch(ctx, o)
			note(ctx, err)
			return w, err
		},
	}, r.Client)
}
