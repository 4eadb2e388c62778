package credentials

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	kubeletv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/kube/internal/elapsed"
)

const (
	// mostKept bounds the cached answers and the remembered failures, each.
	mostKept = 1000
	// A plugin that failed is asked again after a pause, which doubles each time (KG7).
	pauseMin = time.Second
	pauseMax = 30 * time.Second
)

// topic is what a plugin is asked about.
type topic struct {
	provider   string
	subject    [sha256.Size]byte
	repository string
}

// place is where an answer is cached.
type place struct {
	provider string
	subject  [sha256.Size]byte
	scope    kubeletv1.PluginCacheKeyType
	images   string
}

func placeOf(t topic, scope kubeletv1.PluginCacheKeyType) place {
	return place{t.provider, t.subject, scope, within(scope, t.repository)}
}

// inquiry is how a plugin is asked.
type inquiry struct {
	// shared lets callers that wait for another caller's run take its answer, even if it is not cached.
	shared bool
	// turns bounds the runs of the plugin.
	turns chan struct{}
	ask   func(ctx context.Context) (answer, error)
}

// keeper caches answers of plugins for as long as they say, and makes one run at a time per topic.
// It is safe for concurrent use.
type keeper struct {
	clock clock.Clock

	mu      sync.Mutex
	answers map[place]*kept
	topics  map[topic]*asking
}

type kept struct {
	answer      answer
	until, used time.Time
}

// asking is a topic that callers ask about, or whose last run failed. keeper.mu guards it except
// turn, which is held by the caller that runs the plugin.
type asking struct {
	turn    chan struct{}
	callers int
	// runs counts the runs that have ended; answer and err are the result of the last one.
	runs   int
	answer answer
	err    error
	pause  time.Duration
	again  time.Time
}

func newKeeper(c clock.Clock) *keeper {
	return &keeper{clock: c, answers: map[place]*kept{}, topics: map[topic]*asking{}}
}

// get returns a cached answer, or asks for one. After a failure it returns the same error without a
// new run until a pause is over.
func (k *keeper) get(ctx context.Context, t topic, q inquiry) (answer, error) {
	a, runs := k.enter(t)
	defer k.leave(t, a)
	if got, done, err := k.have(t, a, runs, q.shared); done {
		return got, err
	}
	for _, turn := range []chan struct{}{a.turn, q.turns} {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return answer{}, fmt.Errorf("it still runs for others: %w", ctx.Err())
		}
		defer func() { <-turn }()
		// A run for another image of the registry may have cached it.
		if got, done, err := k.have(t, a, runs, q.shared); done {
			return got, err
		}
	}
	got, err := q.ask(ctx)
	if err != nil && ctx.Err() != nil {
		return answer{}, err // abandoned, not failed
	}
	k.note(t, a, got, err)
	return got, err
}

// enter joins the callers that ask about a topic, and returns how many runs there were before.
func (k *keeper) enter(t topic) (a *asking, runs int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a = k.topics[t]
	if a == nil {
		k.forget()
		a = &asking{turn: make(chan struct{}, 1)}
		k.topics[t] = a
	}
	a.callers++
	return a, a.runs
}

// leave drops a topic without callers, unless its failure must be remembered.
func (k *keeper) leave(t topic, a *asking) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a.callers--; a.callers == 0 {
		a.answer = answer{}
		if a.err == nil {
			delete(k.topics, t)
		}
	}
}

// forget drops failures when too many are remembered: first those whose pause ended long ago. The
// lock must be held.
func (k *keeper) forget() {
	for _, age := range []time.Duration{pauseMax, 0} {
		for t, a := range k.topics {
			if len(k.topics) < mostKept {
				return
			}
			if a.callers == 0 && (age == 0 || k.clock.Since(a.again) >= age) {
				delete(k.topics, t)
			}
		}
	}
}

// have returns what is known without a run, if anything.
func (k *keeper) have(t topic, a *asking, runs int, shared bool) (got answer, done bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	for _, scope := range scopes() {
		e := k.answers[placeOf(t, scope)]
		if e != nil && !elapsed.Reached(e.until, now) {
			e.used = now
			return e.answer, true, nil
		}
	}
	switch {
	case a.err != nil && now.Before(a.again):
		return answer{}, true, a.err
	case a.err == nil && shared && a.runs > runs:
		return a.answer, true, nil
	}
	return answer{}, false, nil
}

// note records how a run ended.
func (k *keeper) note(t topic, a *asking, got answer, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	a.runs++
	a.answer, a.err = got, err
	if err != nil {
		a.pause = backoff.Next(pauseMin, pauseMax, a.pause)
		a.again = now.Add(a.pause)
		return
	}
	a.pause, a.again = 0, time.Time{}
	if got.life <= 0 {
		return
	}
	k.makeRoom(now)
	k.answers[placeOf(t, got.scope)] = &kept{answer: got, until: now.Add(got.life), used: now}
}

// makeRoom drops expired answers and, if there are still too many, the least recently used one. The
// lock must be held.
func (k *keeper) makeRoom(now time.Time) {
	var oldest place
	for at, e := range k.answers {
		if elapsed.Reached(e.until, now) {
			delete(k.answers, at)
			continue
		}
		if o := k.answers[oldest]; o == nil || e.used.Before(o.used) {
			oldest = at
		}
	}
	if len(k.answers) >= mostKept {
		delete(k.answers, oldest)
	}
}
