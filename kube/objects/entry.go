package objects

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/podwright/podwright/runtime"
)

// entry is one object that pods refer to. Store.mu guards it.
type entry struct {
	object Object
	users  map[types.UID]bool

	// value is the *v1.ConfigMap or *v1.Secret, nil if it does not exist; known says that the API
	// server has answered at some time, and err is what has failed since.
	value any
	known bool
	err   error
	// told says that a reader was given err, so it must be told when the object is known.
	told bool
	// answered is closed when value, known or err answer the last askAgain.
	answered chan struct{}

	// certain says that an object that is not watched was read since the last askAgain.
	certain bool
	// asked counts calls of askAgain, to detect an answer to an earlier one.
	asked int
	// read is when the API server last answered.
	read time.Time
	// reading is held by the goroutine that reads the object, if there is a TTL.
	reading chan struct{}

	// cancel ends the watch; nil without one.
	cancel context.CancelFunc
}

func newEntry(o Object) *entry {
	return &entry{object: o, users: map[types.UID]bool{}, answered: make(chan struct{}), reading: make(chan struct{}, 1)}
}

// recent is how old an answer may be for a new user: many pods at once need only one.
const recent = time.Second

// askAgain says that a new user needs the current state of the object: one that is not watched is
// read again. Even an immutable one may have been replaced (KO7).
func (e *entry) askAgain(now time.Time) {
	if e.certain && now.Sub(e.read) < recent {
		return
	}
	e.asked++
	if e.certain {
		e.certain = false
		if e.immutable() {
			e.answered = make(chan struct{})
		}
	}
}

// wakeReaders wakes waiting readers.
func (e *entry) wakeReaders() {
	select {
	case <-e.answered:
	default:
		close(e.answered)
	}
}

// set records the API server's answer, and reports whether pods should look again.
func (e *entry) set(value any, now time.Time) (changed bool) {
	changed = e.told || e.known && version(value) != version(e.value)
	e.value, e.known, e.read, e.err, e.told = value, true, now, nil, false
	e.wakeReaders()
	return changed
}

// fail records that the object could not be read.
func (e *entry) fail(err error) {
	e.err = err
	e.wakeReaders()
}

// answer is what a reader gets: the last known value, and an error only if it never was known.
func (e *entry) answer() (any, error) {
	switch {
	case !e.known:
		e.told = true
		return nil, e.err
	case e.value == nil:
		return nil, runtime.ErrNotFound
	}
	return e.value, nil
}

func (e *entry) immutable() bool {
	switch o := e.value.(type) {
	case *v1.ConfigMap:
		return o.Immutable != nil && *o.Immutable
	case *v1.Secret:
		return o.Immutable != nil && *o.Immutable
	}
	return false
}

func (e *entry) stop() {
	if e.cancel != nil {
		e.cancel()
	}
	if !e.known && e.err == nil {
		e.err = context.Canceled
	}
	e.wakeReaders()
}

// version distinguishes contents; it is empty if there is no object.
func version(value any) string {
	if value == nil {
		return ""
	}
	o, err := meta.Accessor(value)
	if err != nil {
		return ""
	}
	return string(o.GetUID()) + "/" + o.GetResourceVersion()
}

// entryStore receives what a reflector reads about one object.
type entryStore struct {
	store *Store
	entry *entry
	// end ends the reflector.
	end context.CancelFunc
}

var _ cache.ReflectorStore = entryStore{}

func (s entryStore) Add(o any) error    { return s.put(o) }
func (s entryStore) Update(o any) error { return s.put(o) }

func (s entryStore) Delete(o any) error {
	if s.means(o) {
		s.set(nil)
	}
	return nil
}

func (s entryStore) Replace(list []any, _ string) error {
	for _, o := range list {
		if s.means(o) {
			return s.put(o)
		}
	}
	s.set(nil)
	return nil
}

// Resync does nothing.
func (s entryStore) Resync() error { return nil }

func (s entryStore) put(o any) error {
	if s.means(o) {
		s.set(o)
	}
	return nil
}

// means reports whether o is the entry's object, whatever the server selects.
func (s entryStore) means(o any) bool {
	m, err := meta.Accessor(o)
	return err == nil && m.GetName() == s.entry.object.Name && m.GetNamespace() == s.entry.object.Namespace
}

// set records the object, and ends the watch of one that cannot change (KO3).
func (s entryStore) set(value any) {
	e, st := s.entry, s.store
	if value != nil {
		slim(value)
	}
	st.mu.Lock()
	changed, tell := e.set(value, st.options.Clock.Now()), st.changed
	changed = st.keep(e, value) || changed
	if e.immutable() {
		e.certain = true
		s.end()
	}
	st.mu.Unlock()
	if changed {
		tell(e.object)
	}
}

// slim drops what pods cannot see.
func slim(value any) {
	if m, err := meta.Accessor(value); err == nil {
		m.SetManagedFields(nil)
	}
}
