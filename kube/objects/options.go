package objects

import (
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/kube/offline"
)

// Options configures a [Store].
type Options struct {
	// Client reads config maps and secrets. Required. As a node it may read those that its pods
	// refer to.
	Client kubernetes.Interface
	// TTL reads objects when they are asked for and at least this long after they were last
	// read, rather than watching them: changes arrive later, and an API server has fewer
	// watches. 0: objects are watched.
	TTL time.Duration
	// Pods names the pods that the node has, in whatever state. Once a minute the store
	// forgets those it follows that are not among them. It must not block. Nil: only Forget
	// does.
	Pods func() []types.UID
	// Cache keeps the objects that followed pods refer to, for a restart without an API server (KO8).
	// Entries of kinds [offline.ConfigMap] and [offline.Secret] are the store's; their program has the cache Run, and Retain those that are InUse,
	// once all pods were followed. Nil: nothing is kept.
	Cache *offline.Cache
	// Clock is the time source. Nil: the real clock.
	Clock clock.Clock
	// Logger receives what fails, never the content of an object. Zero: silent.
	Logger logr.Logger
}

func (o *Options) complete() error {
	var problems []error
	if o.Client == nil {
		problems = append(problems, errors.New("objects: Client is required"))
	}
	if o.TTL < 0 {
		problems = append(problems, errors.New("objects: TTL is negative"))
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return errors.Join(problems...)
}
