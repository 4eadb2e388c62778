package reflection

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/internal/spread"
)

// Pauses before a reflection that ended is started again, and between the starts of watches. After
// one that lasted for steadyAfter they start from pauseMin again.
const (
	pauseMin    = time.Second
	pauseMax    = 30 * time.Second
	steadyAfter = time.Minute
)

// watchLife is how long a server is asked to keep a watch; it takes up to twice as long. Each new
// watch costs a request.
const watchLife = 30 * time.Minute

// answerLimit is how long a request may wait for its answer: for the complete page of a list, for
// the beginning of a watch. Even a slow link delivers a page in that time.
const answerLimit = 5 * time.Minute

// Reflection says what to mirror, and where. All fields but Failed and Logger are required.
type Reflection struct {
	// Name is for logs.
	Name string
	// Example has the type of the objects.
	Example apiruntime.Object
	List    cache.ListWithContextFunc
	Watch   cache.WatchFuncWithContext
	// Client tells whether lists can be streamed: fakes cannot do that.
	Client any
	Store  cache.ReflectorStore
	// Failed is called with each failed request, except those that ctx ended. It must not block.
	Failed func(err error)
	// Silence is how long a watch may send nothing, not even a bookmark; then everything is read
	// again, without a revision. Until the server has sent a bookmark the limit is at least 30 min.
	// 0 means no limit.
	Silence time.Duration
	Clock   clock.Clock
	Logger  logr.Logger
}

// Run reflects until ctx ends, and returns when no request is in flight. Lost watches and failed
// requests are retried after 1 s, doubling up to 30 s, and up to a fifth later.
func (r Reflection) Run(ctx context.Context) {
	silent := logr.Discard()
	ctx = klog.NewContext(ctx, silent)
	requests := &requests{Reflection: r}
	defer requests.end()
	store, heard := r.Store, (*hearing)(nil)
	if r.Silence > 0 {
		heard = &hearing{ReflectorStore: r.Store, clock: r.Clock, silence: r.Silence}
		store = heard
	}
	fresh := func() *cache.Reflector {
		return cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: requests.list, WatchFuncWithContext: requests.watch,
		}, r.Client), r.Example, store, cache.ReflectorOptions{
			Logger: &silent, Name: r.Name, TypeDescription: r.Name, Clock: r.Clock, MinWatchTimeout: watchLife,
		})
	}
	reflector := fresh()
	var pause time.Duration
	for {
		began := r.Clock.Now()
		err := heard.listen(ctx, reflector.ListAndWatchWithContext)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, errSilent):
			r.Logger.Info("A watch of the API server is silent, so all is read again", "what", r.Name, "longerThan", r.Silence)
			reflector = fresh() // a new one names no revision
		case err != nil:
			r.Logger.V(1).Info("Reading from the API server failed", "what", r.Name, "error", err.Error())
		}
		requests.stopWatch()
		if r.Clock.Since(began) >= steadyAfter {
			pause = 0
		}
		pause = backoff.Next(pauseMin, pauseMax, pause)
		if timing.Sleep(ctx, r.Clock, spread.Out(pause, r.Name, r.Clock.Now())) != nil {
			return
		}
	}
}
