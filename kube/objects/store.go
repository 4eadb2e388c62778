package objects

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods"
)

// forgetPeriod is how often the store looks for pods that are gone. A pod followed since the last
// look stays: the node may not know it yet.
const forgetPeriod = time.Minute

// silentFor is how long a reader waits for a newer answer than the last one: less than an engine waits for an object, so that
// a server that does not answer leaves the last answer (KO6).
const silentFor = 5 * time.Second

// errRunning is the error of a second Run.
var errRunning = errors.New("objects: already running")

// Store has the config maps and secrets that pods refer to (KO1-KO7, KO9). It is an object getter
// for an engine, and tells the engine of changes. All methods are safe for concurrent use.
type Store struct {
	options Options
	reader  reader

	mu      sync.Mutex
	entries map[Object]*entry
	pods    map[types.UID]*follower
	// running is the context of Run, nil while it does not run.
	running context.Context
	changed func(Object)
	watches sync.WaitGroup
	// lent are the versions that pods got from the cache, as long as the API server has not answered about them.
	lent map[Object]string
	// away is until when a server that did not answer is not asked first for what there is an answer to: in the cache, or read
	// before the TTL.
	away time.Time
}

// follower is a pod whose objects are kept.
type follower struct {
	// version is the pod's resource version, empty if it has none.
	version string
	objects map[Object]bool
	// late is true once a look for pods that are gone has seen the pod.
	late bool
}

var (
	_ pods.ObjectGetter  = (*Store)(nil)
	_ pods.ObjectWatcher = (*Store)(nil)
)

// New returns a store. It reads nothing until it is asked.
func New(o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Store{
		options: o, reader: reader{o.Client}, entries: map[Object]*entry{}, pods: map[types.UID]*follower{}, lent: map[Object]string{},
	}, nil
}

// Follow keeps the objects that a pod refers to, until Forget. Call it before the pod is given to an
// engine, and again with each version of the pod; repeated calls are harmless. It does not block.
func (s *Store) Follow(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.pods[pod.UID]
	if old != nil && old.version != "" && old.version == pod.ResourceVersion {
		old.late = false
		return // a source delivers all its pods whenever one changes
	}
	want := references(pod)
	s.pods[pod.UID] = &follower{version: pod.ResourceVersion, objects: want}
	for o := range want {
		if old == nil || !old.objects[o] {
			s.use(o, pod.UID)
		}
	}
	if old == nil {
		return
	}
	for o := range old.objects {
		if !want[o] {
			s.release(o, pod.UID)
		}
	}
}

// Forget releases the objects of a pod that is gone. An object that no other pod refers to is no
// longer watched, and its content is dropped. It does not block; unknown pods are ignored.
func (s *Store) Forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(uid)
}

func (s *Store) forget(uid types.UID) {
	f := s.pods[uid]
	if f == nil {
		return
	}
	delete(s.pods, uid)
	for o := range f.objects {
		s.release(o, uid)
	}
}

// use makes a pod a user of an object. s.mu must be held.
func (s *Store) use(o Object, uid types.UID) {
	e := s.entries[o]
	if e == nil {
		e = newEntry(o)
		s.entries[o] = e
	}
	e.users[uid] = true
	e.askAgain(s.options.Clock.Now())
	s.watch(e)
}

// release undoes use. s.mu must be held.
func (s *Store) release(o Object, uid types.UID) {
	e := s.entries[o]
	if e == nil {
		return
	}
	if delete(e.users, uid); len(e.users) > 0 {
		return
	}
	delete(s.entries, o)
	delete(s.lent, o)
	e.stop()
	s.options.Cache.Remove(cached(o))
}

// InUse reports whether a followed pod refers to an object.
func (s *Store) InUse(o Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[o] != nil
}

// watch starts an entry's watch if it needs one. s.mu must be held.
func (s *Store) watch(e *entry) {
	if s.running == nil || s.running.Err() != nil || s.options.TTL > 0 || e.cancel != nil || e.certain {
		return
	}
	ctx, cancel := context.WithCancel(s.running)
	e.cancel = cancel
	s.watches.Go(func() {
		defer cancel()
		s.reader.reflect(ctx, e.object, entryStore{s, e, cancel}, func(err error) { s.failed(e, err) }, s.options)
		s.mu.Lock()
		defer s.mu.Unlock()
		e.cancel = nil
		if s.entries[e.object] == e {
			s.watch(e) // a new user came while it ended
		}
	})
}

// Run keeps the objects up to date until ctx ends, and returns when all its watches have ended.
// changed, which must not block, is called with each object that is added, changed or deleted; nil
// is allowed. An engine that has the store as Config.Pods.Objects calls Run itself. A second
// concurrent Run is an error.
func (s *Store) Run(ctx context.Context, changed func(Object)) error {
	if changed == nil {
		changed = func(Object) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	if s.running != nil {
		s.mu.Unlock()
		return errRunning
	}
	s.running, s.changed = ctx, changed
	for _, e := range s.entries {
		s.watch(e)
	}
	s.mu.Unlock()
	for timing.Sleep(ctx, s.options.Clock, forgetPeriod) == nil {
		s.forgetGone()
	}
	s.mu.Lock()
	s.running = nil
	s.mu.Unlock()
	s.watches.Wait()
	return nil
}

// forgetGone forgets pods that the node no longer has.
func (s *Store) forgetGone() {
	if s.options.Pods == nil {
		return
	}
	present := map[types.UID]bool{}
	for _, uid := range s.options.Pods() {
		present[uid] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, f := range s.pods {
		if !present[uid] && f.late {
			s.forget(uid)
		}
		f.late = true
	}
}

// GetConfigMap returns a config map. It waits for the API server's answer; if the server cannot be
// asked, it returns the last answer, which with a cache may be from before a restart, or the error.
func (s *Store) GetConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return get[*v1.ConfigMap](ctx, s, Object{Kind: kindConfigMap, Namespace: namespace, Name: name})
}

// GetSecret returns a secret, as GetConfigMap does a config map.
func (s *Store) GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	return get[*v1.Secret](ctx, s, Object{Kind: kindSecret, Namespace: namespace, Name: name})
}

func get[T *v1.ConfigMap | *v1.Secret](ctx context.Context, s *Store, o Object) (T, error) {
	found, err := s.get(ctx, o)
	value, _ := found.(T)
	if err != nil {
		return nil, err
	}
	return value, nil
}

// ask returns an object as the API server has it, from memory if it is followed.
func (s *Store) ask(ctx context.Context, o Object) (any, error) {
	s.mu.Lock()
	e, running := s.entries[o], s.running != nil
	if e == nil || s.options.TTL == 0 && !running && !e.known {
		s.mu.Unlock()
		return s.reader.get(ctx, o)
	}
	answered, known := e.answered, e.known
	if known && s.options.TTL > 0 && s.options.Clock.Now().Before(s.away) {
		defer s.mu.Unlock()
		return e.answer()
	}
	s.mu.Unlock()
	caller := ctx
	ctx, cancel := s.patiently(caller, known)
	defer cancel()
	if s.options.TTL > 0 {
		defer func() {
			if ctx.Err() != nil && caller.Err() == nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.away = s.options.Clock.Now().Add(absence) // a pod with many objects waits once
			}
		}()
		return s.getFresh(ctx, e)
	}
	select {
	case <-answered:
	case <-ctx.Done():
		return s.unanswered(ctx, e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.answer()
}

// patiently returns a context for a question about an object, which ends soon if there is an answer already.
func (s *Store) patiently(ctx context.Context, known bool) (context.Context, context.CancelFunc) {
	if !known {
		return ctx, func() {}
	}
	return timing.WithTimeout(ctx, s.options.Clock, silentFor)
}

// unanswered is the answer to a reader that waits no longer: the last one, or an error that is over once there is one.
func (s *Store) unanswered(ctx context.Context, e *entry) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.known {
		return e.answer()
	}
	e.told = true
	return nil, fmt.Errorf("the API server has not answered: %w", ctx.Err())
}

// getFresh returns an object whose last read is not older than the TTL. If it cannot be read again,
// the last answer stays valid.
func (s *Store) getFresh(ctx context.Context, e *entry) (any, error) {
	select {
	case e.reading <- struct{}{}:
		defer func() { <-e.reading }()
	case <-ctx.Done():
		return s.unanswered(ctx, e)
	}
	s.mu.Lock()
	now := s.options.Clock.Now()
	if e.certain && (e.immutable() || now.Sub(e.read) < s.options.TTL) {
		defer s.mu.Unlock()
		return e.answer()
	}
	asked := e.asked
	s.mu.Unlock()
	value, err := s.reader.get(ctx, e.object)
	if err != nil && !cri.IsNotFound(err) {
		s.mu.Lock()
		known := e.known
		e.fail(err)
		last, why := e.answer()
		s.mu.Unlock() // before it is logged: a logger may block
		if known {
			s.options.Logger.Info("An object stays as it was read last", "kind", e.object.Kind, "namespace", e.object.Namespace, "name", e.object.Name, "error", err.Error())
		}
		return last, why
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.set(value, now)
	e.certain = e.asked == asked
	s.keep(e, value)
	return e.answer()
}

// failed records that an object could not be read.
func (s *Store) failed(e *entry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.fail(unread(err))
}

// unread describes a failure that says nothing about the object. It hides a 404 of a server that does
// not know the resource, or of something in front of it, which readers would take for a missing object.
func unread(err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("no answer of the API server about the object: %s", err.Error())
	}
	return err
}
