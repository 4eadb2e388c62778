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
	// Client reads config maps and secrets. Required. A node may read those that its pods refer to.
	Client kubernetes.Interface
	// TTL means that objects are read on demand, when the last read is at least this long ago,
	// instead of being watched: changes arrive later, and the API server has fewer watches. 0 means
	// that objects are watched.
	TTL time.Duration
	// Pods returns the pods that the node has, in whatever state. Once a minute the store forgets
	// those it follows that are not among them. It must not block. Nil means that only Forget does
	// that.
	Pods func() []types.UID
	// Cache keeps the objects that followed pods refer to, for a restart without an API server (KO8). Entries
	// of kinds [offline.ConfigMap] and [offline.Secret] belong to the store; the program calls the cache's Run
	// and, once all pods are followed, Retain with those that are InUse. Nil means that nothing is kept.
	Cache *offline.Cache
	// Clock is the time source. Nil means the real clock.
	Clock clock.Clock
	// Logger receives failures, never the content of an object. Zero means silent.
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
