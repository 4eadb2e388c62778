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
)

// Pauses before a reflection that ended is begun again, and between the beginnings of
// watches. After one that lasted for steadyAfter they are short again.
const (
	pauseMin    = time.Second
	pauseMax    = 30 * time.Second
	steadyAfter = time.Minute
)

// watchLife is how long a server is asked to keep a watch, up to twice as long: each new one is
// a request.
const watchLife = 30 * time.Minute

// answerLimit is how long a request may wait for its answer: for a page of a list to its
// end, for a watch to its beginning. A slow link brings a page in that time.
const answerLimit = 5 * time.Minute

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
	// Silence is how long a watch may say nothing, not even a bookmark: then all is read again,
	// without a revision. Until the server has sent a bookmark it is 30 min at least. 0: as long
	// as it likes.
	Silence time.Duration
	Clock   clock.Clock
	Logger  logr.Logger
}

// Run reflects until ctx ends, and returns when no request is under way. Lost watches and
// failed requests begin again, after 1 s, doubling up to 30 s.
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
			reflector = fresh() // it names no revision
		case err != nil:
			r.Logger.V(1).Info("Reading from the API server failed", "what", r.Name, "error", err.Error())
		}
		requests.stopWatch()
		if r.Clock.Since(began) >= steadyAfter {
			pause = 0
		}
		pause = backoff.Next(pauseMin, pauseMax, pause)
		if timing.Sleep(ctx, r.Clock, pause) != nil {
			return
		}
	}
}
