package pleg

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Why a [Generator] is not healthy.
var (
	// errNeverListed: no list of the runtime has succeeded yet (H1).
	errNeverListed = errors.New("pleg has yet to be successful")
	// errListFailing: no list has succeeded within the threshold, and the latest one failed.
	errListFailing = errors.New("listing pods fails at the runtime")
	// errListSlow: no list has succeeded within the threshold, and one is in progress.
	errListSlow = errors.New("the runtime does not answer a list request")
)

// Health says how well the runtime can be read.
type Health struct {
	// Err is nil if the runtime has been listed within the health threshold. Otherwise it says why
	// not, with both times (H1, H2). Hung inspections are not included: they harm only their pods
	// (B5).
	Err error
	// LastList is when the latest successful list began; zero if none has.
	LastList time.Time
	// ListErr is why the latest list failed; nil if it succeeded.
	ListErr error
	// Hung names the pods whose last inspection ran out of time, sorted by UID.
	Hung []HungPod
	// WrittenOff counts the runtime calls that ignore the end of their context and were written off
	// (B4).
	WrittenOff int
}

// HungPod is a pod whose inspection ran out of time.
type HungPod struct {
	UID             types.UID
	Name, Namespace string
	// Since is when the first of the consecutive failures happened.
	Since time.Time
	// Failures counts consecutive failures; Retry is when the next attempt is due.
	Failures int
	Retry    time.Time
}

// Health reports how well the runtime can be read.
func (g *Generator) Health() Health {
	now := g.options.Clock.Now()
	h := g.health.judge(now, healthThreshold)
	h.WrittenOff = g.lostReads.count() + g.lostHidden.count() + g.lostLists.count() + g.lostStreams.count()
	g.mu.Lock()
	defer g.unlock()
	for _, r := range g.records {
		if r.failures > 0 && !r.dropped {
			h.Hung = append(h.Hung, HungPod{r.uid, r.name, r.namespace, r.failing, r.failures, r.failed.Add(r.backoff)})
		}
	}
	slices.SortFunc(h.Hung, func(a, b HungPod) int { return cmp.Compare(a.UID, b.UID) })
	return h
}

// listHealth remembers how lists went.
type listHealth struct {
	mu sync.Mutex
	// last is when the latest successful list began; since is when the list in progress began, zero
	// if there is none.
	last, since time.Time
	err         error
}

func (h *listHealth) listing(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since = now
}

// listed ends a list that began at that time. A success counts from its start, so that the age
// keeps growing if a later relist hangs (H4).
func (h *listHealth) listed(began time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since, h.err = time.Time{}, err
	if err == nil {
		h.last = began
	}
}

// judge applies H1 and H2. If the clock went back, no time counts as passed.
func (h *listHealth) judge(now time.Time, threshold time.Duration) Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	health := Health{LastList: h.last, ListErr: h.err}
	if h.last.IsZero() {
		health.Err = errNeverListed
		if h.err != nil {
			health.Err = fmt.Errorf("%w: %w", errNeverListed, h.err)
		}
		return health
	}
	age := now.Sub(h.last)
	if age <= threshold {
		return health
	}
	reason := errListSlow
	if h.err != nil {
		reason = fmt.Errorf("%w: %w", errListFailing, h.err)
	}
	health.Err = fmt.Errorf("pleg was last seen active %v ago; threshold is %v: %w", age, threshold, reason)
	return health
}
