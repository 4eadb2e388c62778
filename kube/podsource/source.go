package podsource

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	enginenode "github.com/podwright/podwright/internal/node"
	"github.com/podwright/podwright/kube/internal/reflection"
	"github.com/podwright/podwright/syncloop"
)

// Source is the engine's source of the pods of an API server. Make one with [New]. All
// methods are safe for concurrent use.
type Source struct {
	options  Options
	events   *enginenode.Events
	store    *store
	revision *revision
	health   health
}

var (
	_ syncloop.Source         = (*Source)(nil)
	_ syncloop.Preceded       = (*Source)(nil)
	_ syncloop.HealthReporter = (*Source)(nil)
)

// New checks the options and reads the revision of the last run. It makes no call. A revision file
// that cannot be read is an error: without it, old pods could come back.
func New(options Options) (*Source, error) {
	if err := options.complete(); err != nil {
		return nil, fmt.Errorf("kube/podsource: %w", err)
	}
	events := &enginenode.Events{Recorder: options.Events, Clock: options.Clock, Logger: options.Logger}
	options.Events = events
	s := &Source{options: options, events: events, health: health{clock: options.Clock}}
	var err error
	if s.revision, err = loadRevision(options); err != nil {
		return nil, fmt.Errorf("kube/podsource: %w", err)
	}
	s.store = newStore(s.revision, &s.health)
	return s, nil
}

// Name implements [syncloop.Source].
func (s *Source) Name() string { return syncloop.SourceAPI }

// Precedence implements [syncloop.Preceded].
func (s *Source) Precedence() syncloop.Precedence { return syncloop.PrecedenceAPI }

// Health implements [syncloop.HealthReporter]: the last list, event or bookmark, and the
// last error (KS11).
func (s *Source) Health() syncloop.SourceHealth { return s.health.read() }

// Lookup returns the newest copy of a pod that the API server showed, nil if it shows none with
// that UID. It is shared: only read it.
func (s *Source) Lookup(uid types.UID) *v1.Pod { return s.store.lookup(uid) }

// Run implements [syncloop.Source]. It delivers the full set after the first complete list and
// after every change, until ctx ends. Changes during a delivery are delivered together.
func (s *Source) Run(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) error {
	if s.options.Start != nil {
		select {
		case <-s.options.Start:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer s.events.Leave()
	defer wg.Wait()
	defer cancel()
	s.store.forgetSync()
	wg.Go(func() { s.reflect(ctx, &wg) })
	wg.Go(func() { s.revision.keep(ctx) })
	for {
		select {
		case <-s.store.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		if pods, complete := s.store.list(); complete {
			if err := deliver(ctx, pods); err != nil {
				return err
			}
		}
	}
}

// reflect keeps the store up to date with the API server until ctx ends. Its watches are counted in
// wg.
func (s *Source) reflect(ctx context.Context, wg *sync.WaitGroup) {
	pods := s.options.Client.CoreV1().Pods(metav1.NamespaceAll)
	mine := fields.OneTermEqualSelector("spec.nodeName", s.options.NodeName).String()
	reflection.Reflection{
		Name: "pods of " + s.options.NodeName, Example: &v1.Pod{}, Client: s.options.Client, Store: s.store,
		List: func(ctx context.Context, o metav1.ListOptions) (apiruntime.Object, error) {
			o.FieldSelector = mine
			// A list that may be served from a cache could be older than what was known.
			o.ResourceVersion, o.ResourceVersionMatch = "", ""
			return pods.List(ctx, o)
		},
		Watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = mine
			listing := ptr.Deref(o.SendInitialEvents, false)
			if listing {
				o.ResourceVersion = "" // as for lists
			}
			events, err := pods.Watch(ctx, o)
			if err != nil {
				return nil, err
			}
			heard := &overheard{
				inner: events, health: &s.health, clock: s.options.Clock, limit: s.options.Silence, listing: listing,
				events: make(chan watch.Event), stop: make(chan struct{}),
			}
			wg.Go(func() { heard.run(ctx) })
			return heard, nil
		},
		Failed: s.health.refused, Clock: s.options.Clock, Logger: s.options.Logger,
	}.Run(ctx)
}
