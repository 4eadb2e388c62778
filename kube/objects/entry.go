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

	// value is the *v1.ConfigMap or *v1.Secret, nil if there is none; known says that the API
	// server said so at some time, and err what has failed since.
	value any
	known bool
	err   error
	// told says that a reader was given err, so it wants to know when that is over.
	told bool
	// answered is closed when value, known or err are the answer to askAgain.
	answered chan struct{}

	// certain says that an object that is not watched was read since the last askAgain.
	certain bool
	// asked counts calls of askAgain, so that an answer to an earlier one is noticed.
	asked int
	// read is when the API server said so.
	read time.Time
	// reading is held by the one who reads, with a TTL.
	reading chan struct{}

	// cancel ends the watch, nil without one.
	cancel context.CancelFunc
}

func newEntry(o Object) *entry {
	return &entry{object: o, users: map[types.UID]bool{}, answered: make(chan struct{}), reading: make(chan struct{}, 1)}
}

// recent is how old an answer may be for a new user: a crowd of pods needs one.
const recent = time.Second

// askAgain says that a new user wants to know how the object is now: one that is not watched is read
// again. Also an immutable one may have been replaced (KO7).
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

// wakeReaders lets waiting readers go.
func (e *entry) wakeReaders() {
	select {
	case <-e.answered:
	default:
		close(e.answered)
	}
}

// set notes what the API server says, and reports whether pods should look.
func (e *entry) set(value any, now time.Time) (changed bool) {
	changed = e.told || e.known && version(value) != version(e.value)
	e.value, e.known, e.read, e.err, e.told = value, true, now, nil, false
	e.wakeReaders()
	return changed
}

// fail notes that the object could not be read.
func (e *entry) fail(err error) {
	e.err = err
	e.wakeReaders()
}

// answer is what a reader gets: the value as it was known last, and an error only if it never was.
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

// version tells contents apart; it is empty for no object.
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

// entryStore takes what a reflector reads about one object.
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

// Resync has nothing to do.
func (s entryStore) Resync() error { return nil }

func (s entryStore) put(o any) error {
	if s.means(o) {
		s.set(o)
	}
	return nil
}

// means reports whether o is the object, whatever the server selects.
func (s entryStore) means(o any) bool {
	m, err := meta.Accessor(o)
	return err == nil && m.GetName() == s.entry.object.Name && m.GetNamespace() == s.entry.object.Namespace
}

// set notes the object, and ends the watch of one that cannot change (KO3).
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

// slim drops what no pod can see.
func slim(value any) {
	if m, err := meta.Accessor(value); err == nil {
		m.SetManagedFields(nil)
	}
}
