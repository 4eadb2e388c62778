package tokens

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/complaint"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/internal/elapsed"
	"github.com/podwright/podwright/kube/internal/spread"
)

const (
	// patience is how long a request may take while there is a valid answer.
	patience = 5 * time.Second
	// morePatience is how long a request may take otherwise: a little less than the engine waits for it (10 s), so
	// that an API server that does not answer is told from a caller that gives up.
	morePatience = 8 * time.Second
	// unused is how long an answer is kept that no pod asks for: running pods ask every minute.
	unused = time.Hour
	// rest is how long an answer is used that is due when it comes, for example because the API server was slow.
	rest = 10 * time.Second
)

// keeper keeps answers of the API server until they are due to be replaced or, if that fails, for as
// long as they are valid. It makes one request at a time per answer. It is safe for concurrent use.
type keeper[K comparable, V any] struct {
	clock  clock.Clock
	logger logr.Logger
	shelf  shelf[K, V]

	mu      sync.Mutex
	entries map[K]*kept[V]
	// swept is when unused answers were last dropped.
	swept time.Time
	// away is until when an unresponsive API server is not asked for what is on the shelf.
	away time.Time
}

// kept is one answer. keeper.mu guards it except turn, which is held by the caller that makes a request.
type kept[V any] struct {
	turn chan struct{}
	// since is when it was first asked for, used when last.
	since, used time.Time

	recalled sync.Once
	answer   answer[V]
	good     bool // there is an answer, valid until it expires
	// early says that the answer is from before the start.
	early bool
	// err is why the last request failed; pause is the pause after it, which ends at again.
	err   error
	pause time.Duration
	again time.Time
	// said is the failure that was last logged.
	said saying
}

// saying is what is new in a log about a failure.
type saying struct {
	usable bool
	kind   string
}

// answer is what the API server issued. It deliberately has no method that prints it.
type answer[V any] struct {
	value V
	// due is when it is to be replaced, expires when it becomes invalid; zero means never.
	due, expires time.Time
}

// isDue reports whether an answer is to be replaced.
func (a answer[V]) isDue(now time.Time) bool { return elapsed.Reached(a.due, now) }

// question says how to ask for an answer.
type question[V any] struct {
	ask func(ctx context.Context) (answer[V], error)
	// log says what it is about, as keys and values.
	log []any
	// void reports whether an error means that an older answer is no longer valid. Nil means that none does.
	void func(err error) bool
}

func newKeeper[K comparable, V any](o Options, s shelf[K, V]) *keeper[K, V] {
	s.cache = o.Cache
	return &keeper[K, V]{clock: o.Clock, logger: o.Logger, shelf: s, entries: map[K]*kept[V]{}}
}

// errIssuedExpired says that an answer cannot be used: by the node's clock it was over when it came.
var errIssuedExpired = errors.New("issued already expired; check the clocks of the node and the API server")

// errDue says that an answer must be requested.
var errDue = errors.New("due")

// get returns an answer. The error says why there is none, and is repeated without a new request
// until a pause is over.
func (k *keeper[K, V]) get(ctx context.Context, key K, q question[V]) (V, error) {
	e := k.entry(key)
	k.recall(key, e)
	value, usable, err := k.have(e)
	if !errors.Is(err, errDue) {
		return value, err
	}
	if usable {
		select {
		case e.turn <- struct{}{}:
		default:
			return value, nil // another caller is asking
		}
	} else {
		select {
		case e.turn <- struct{}{}:
		case <-ctx.Done():
			return value, fmt.Errorf("the API server has not answered: %w", ctx.Err())
		}
	}
	defer func() { <-e.turn }()
	if value, usable, err = k.have(e); !errors.Is(err, errDue) {
		return value, err // another caller has got it
	}
	if err := k.replace(ctx, key, e, q, usable); err != nil {
		if usable {
			return value, nil
		}
		return value, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.usable(e, k.clock.Now()) {
		return e.answer.value, nil
	}
	if e.err == nil { // it has expired meanwhile
		return *new(V), errIssuedExpired
	}
	return *new(V), e.err
}

// entry returns the entry of a key, and periodically drops unused ones.
func (k *keeper[K, V]) entry(key K) *kept[V] {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	if now.Sub(k.swept) >= unused {
		k.swept = now
		for other, e := range k.entries {
			if now.Sub(e.used) >= unused {
				delete(k.entries, other)
			}
		}
	}
	e := k.entries[key]
	if e == nil {
		e = &kept[V]{turn: make(chan struct{}, 1), since: now}
		k.entries[key] = e
	}
	e.used = now
	return e
}

// wantedSince returns when an answer was first asked for, zero if it has been dropped.
func (k *keeper[K, V]) wantedSince(key K) (since time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.entries[key]; e != nil {
		since = e.since
	}
	return since
}

// have returns the current answer: a usable one, possibly with errDue, or the reason why there is
// none.
func (k *keeper[K, V]) have(e *kept[V]) (value V, usable bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	usable = k.usable(e, now)
	if usable {
		value = e.answer.value
	}
	switch {
	case usable && (!e.answer.isDue(now) && e.isGood(now) || now.Before(k.away)):
		return value, true, nil
	case !now.Before(e.again):
		return value, usable, errDue
	case usable:
		return value, true, nil
	}
	return value, false, e.err
}

// usable reports whether there is an answer to return: a valid one or, with a cache, the last one
// while the API server does not answer. k.mu must be held.
func (k *keeper[K, V]) usable(e *kept[V], now time.Time) bool {
	return e.isGood(now) || k.shelf.cache != nil && e.good && !decided(e.err)
}

func (e *kept[V]) isGood(now time.Time) bool {
	return e.good && (e.answer.expires.IsZero() || !elapsed.Reached(e.answer.expires, now))
}

// replace requests an answer and records it. The caller holds the entry's turn. An error means that the
// caller gave up, which tells other callers nothing about the API server, so nothing is recorded.
func (k *keeper[K, V]) replace(caller context.Context, key K, e *kept[V], q question[V], usable bool) error {
	ctx, cancel := timing.WithTimeout(caller, k.clock, k.patience(e, usable))
	defer cancel()
	next, err := q.ask(ctx)
	if err != nil && caller.Err() != nil {
		return err
	}
	now := k.clock.Now()
	if err == nil && !next.expires.IsZero() && elapsed.Reached(next.expires, now) {
		err = errIssuedExpired
	}
	if err != nil {
		pause, verbosity := k.refused(key, e, q, err, now, usable)
		k.logger.V(verbosity).Info("The API server issued nothing", append([]any{"hasOld", usable, "retryAfter", pause, "error", err.Error()}, q.log...)...)
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if next.isDue(now) {
		next.due = now.Add(rest)
	}
	e.answer, e.good, e.early, e.err, e.pause, e.again, e.said = next, true, false, nil, 0, time.Time{}, saying{}
	k.away = time.Time{}
	if k.entries[key] == e { // otherwise it was dropped meanwhile, also from the shelf
		k.shelf.put(key, next)
	}
	return nil
}

// refused records why there is no new answer, and returns the pause before the next request, and the verbosity with which
// to log the failure: 0 if it is news. It logs nothing: a logger may block, and other pods need the lock.
func (k *keeper[K, V]) refused(key K, e *kept[V], q question[V], err error, now time.Time, usable bool) (pause time.Duration, verbosity int) {
	void := q.void != nil && q.void(err)
	k.mu.Lock()
	defer k.mu.Unlock()
	e.err, e.pause = err, pauseAfter(err, e.pause)
	e.again = now.Add(spread.Out(e.pause, fmt.Sprint(key), now))
	if k.shelf.cache != nil && !answered(err) {
		k.away = now.Add(absence)
	}
	if void {
		e.answer, e.good = answer[V]{}, false
		if k.entries[key] == e { // otherwise what is on the shelf is the next life's
			k.shelf.remove(key)
		}
	}
	if said := (saying{usable, complaint.Kind(err)}); e.said != said {
		e.said = said
		return e.pause, 0
	}
	return e.pause, 1
}

// last returns the last answer, valid or not.
func (k *keeper[K, V]) last(key K) (value V, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entries[key]
	if e == nil || !e.good {
		return value, false
	}
	return e.answer.value, true
}

// patience is how long a request may take.
func (k *keeper[K, V]) patience(e *kept[V], usable bool) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !usable:
		return morePatience
	case e.early:
		return earlyPatience
	}
	return patience
}

// drop forgets the selected answers.
func (k *keeper[K, V]) drop(which func(K) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.entries {
		if which(key) {
			delete(k.entries, key)
			k.shelf.remove(key)
		}
	}
}

// hasten makes the next use of each overdue answer request a new one, without a pause, and returns the keys.
func (k *keeper[K, V]) hasten() (keys []K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	k.away = time.Time{}
	for key, e := range k.entries {
		if e.good && e.answer.isDue(now) {
			e.pause, e.again = 0, time.Time{}
			keys = append(keys, key)
		}
	}
	return keys
}
