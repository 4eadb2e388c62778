package agenttest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/internal/tale"
)

// crashVariable, set to "full", kills at every call: make kube-crash.
const crashVariable = "PODWRIGHT_CRASH"

// crashSlice is how many kills of each life the suite does otherwise, always the same ones. The full run kills at
// every call, and draws where the next agent dies too.
const crashSlice = 4

// lived is what came of a life.
type lived struct {
	tale   *tale.Tale
	wrong  []string
	events map[string]string
	ways   []*way
	// calls is how many an agent makes at most.
	calls int
}

// run lives a life to its end.
func (l life) run(t *testing.T, late bool, deaths ...death) lived {
	w := newWorld(t, l, deaths)
	w.prepare()
	w.startAfter(late)
	l.live(w)
	w.awaitCalm()
	a := accountOf(w.api.History(), w.tale, w.kills)
	for c := range w.containers {
		w.tale.Started(fmt.Sprint(c), w.rt.Facts(c.pod, c.name).Started)
	}
	if err := w.rt.Doubled(); err != nil {
		a.differ("%v", err)
	}
	if err := w.agent.engine.Healthy(); err != nil {
		a.differ("health: %v", err)
	}
	for _, p := range w.agent.engine.Problems() {
		a.differ("problem: %v", p)
	}
	w.stop()
	return lived{tale: w.tale, wrong: a.wrong, events: a.events, ways: w.ways}
}

// undisturbed lives a life some times without a kill, with the agent from the beginning and from a bit later, and
// returns what is seen of all of them.
func (l life) undisturbed(t *testing.T) (calm lived) {
	for i := range 4 {
		synctest.Test(t, func(t *testing.T) {
			one := l.run(t, i%2 == 1)
			for _, text := range one.wrong {
				t.Errorf("undisturbed: %s", text)
			}
			if calm.tale == nil {
				calm = one
			}
			calm.calls = max(calm.calls, len(one.ways[0].made()))
			calm.tale.Join(one.tale)
			maps.Copy(calm.events, one.events)
			for _, text := range one.tale.Differences(calm.tale) {
				t.Errorf("two undisturbed lives differ: %s", text)
			}
		})
	}
	return calm
}

// TestCrashAtCalls: KW3, KT6, KN5, KN8, KK1, KO4. The agent is killed at each call that it makes to the API
// server: before the server has it, when the server has done it, and when the agent has seen the answer. The
// next agent finds the disk and the runtime of that moment. An observer sees no difference to the
// undisturbed life.
func TestCrashAtCalls(t *testing.T) {
	full := os.Getenv(crashVariable) == "full"
	seed := tale.Seed(t, full, time.Now())
	var sum table
	t.Run("lives", func(t *testing.T) {
		for _, l := range lives() {
			t.Run(l.name, func(t *testing.T) {
				t.Parallel()
				calm := l.undisturbed(t)
				random := rand.New(rand.NewPCG(seed, 11))
				deaths := deathsIn(calm.calls, random)
				points := calm.calls * 3
				if !full {
					random.Shuffle(len(deaths), func(i, j int) { deaths[i], deaths[j] = deaths[j], deaths[i] })
					deaths = deaths[:crashSlice]
				}
				for _, d := range deaths {
					t.Run(nameOf(d), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							one := l.run(t, false, d...)
							found := append(one.tale.Differences(calm.tale), one.wrong...)
							for kind, text := range one.events {
								if _, known := calm.events[kind]; !known {
									found = append(found, "an event that the undisturbed life has not: "+kind+": "+text)
								}
							}
							for _, text := range found {
								t.Errorf("killed at %s: %s", killedAt(one.ways), text)
							}
							sum.add(l.name, points, one.ways, len(found))
						})
					})
				}
			})
		}
	})
	t.Logf("\n%s", sum.String())
}

// killedAt names the points in messages.
func killedAt(ways []*way) string {
	var names []string
	for _, w := range ways[:len(ways)-1] {
		names = append(names, w.diedAt())
	}
	return strings.Join(names, " and ")
}

// deathsIn are those at each call, and as many after which the next agent dies too, early in its life.
func deathsIn(calls int, random *rand.Rand) (all [][]death) {
	for call := 1; call <= calls; call++ {
		for _, m := range []moment{unsent, unheard, heard} {
			first := death{call, m}
			next := death{1 + random.IntN(30), []moment{unsent, unheard, heard}[random.IntN(3)]}
			all = append(all, []death{first}, []death{first, next})
		}
	}
	return all
}

// table counts what was compared.
type table struct {
	mu   sync.Mutex
	rows map[string]*row
}

type row struct{ points, lives, kills, differences int }

func (s *table) add(name string, points int, ways []*way, differences int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = map[string]*row{}
	}
	if s.rows[name] == nil {
		s.rows[name] = &row{points: points}
	}
	r := s.rows[name]
	r.lives++
	r.kills += len(ways) - 1
	r.differences += differences
}

// String prints the table.
func (s *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %11s %14s %6s %11s\n", "life", "kill points", "lives compared", "kills", "differences")
	var all row
	line := func(name string, r row) {
		fmt.Fprintf(&b, "%-12s %11d %14d %6d %11d\n", name, r.points, r.lives, r.kills, r.differences)
	}
	for _, l := range lives() {
		if r := s.rows[l.name]; r != nil {
			line(l.name, *r)
			all = row{all.points + r.points, all.lives + r.lives, all.kills + r.kills, all.differences + r.differences}
		}
	}
	line("all", all)
	return b.String()
}

// nameOf is the name of a test: a path of plain letters, as mounts are listed by it.
func nameOf(deaths []death) string {
	var names []string
	for _, d := range deaths {
		names = append(names, fmt.Sprintf("%d-%s", d.call, d.moment))
	}
	return strings.Join(names, "+")
}
