package syncloop

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestPanicKeepsNoTurn: IN6. The program's functions judge a set in its source's turn. If one panics, the other
// sources still deliver, a source can be added, and the set's own source runs again; of that set nothing counts.
func TestPanicKeepsNoTurn(t *testing.T) {
	for name, fail := range map[string]func(o *Options, bug func(*v1.Pod)){
		"Review": func(o *Options, bug func(*v1.Pod)) {
			o.Review = func(_, p *v1.Pod) error { bug(p); return nil }
		},
		"Owner": func(o *Options, bug func(*v1.Pod)) {
			o.Owner = func(uid types.UID) (*v1.Pod, string) { bug(newPod(string(uid), "")); return nil, "" }
		},
		"Lower": func(o *Options, bug func(*v1.Pod)) {
			o.Owner = func(uid types.UID) (*v1.Pod, string) {
				source := "file"
				if uid == "b" {
					source = "other"
				}
				return newPod(string(uid), string(uid)), source
			}
			o.Lower = func(p *v1.Pod) (*v1.Pod, string) { bug(p); return p, "" }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file, other, l := newScripted("file"), newScripted("other"), &log{}
				options := Options{Sources: []Source{file, other}}
				fail(&options, func(p *v1.Pod) {
					if p.UID == "bad" || p.Spec.Containers[0].Image == "bad" {
						panic("bug in " + name)
					}
				})
				loop, stop := run(t, l, options)
				defer stop()
				other.set()
				file.set(newPod("a", "a"))
				l.want(t, "the first sets", "create a")
				file.set(newPod("a", "a", image("bad")), newPod("bad", "bad"), newPod("c", "c"))
				l.want(t, "a set with a pod that makes it panic")
				other.set(newPod("b", "b"))
				l.want(t, "another source", "create b")
				soon, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := loop.AddSource(soon, newScripted("third")); err != nil {
					t.Errorf("AddSource: %v", err)
				}
				pass(time.Second) // the back-off
				file.set(newPod("a", "a"), newPod("c", "c"))
				l.want(t, "the source again", "create c")
			})
		})
	}
}

// lockedSource needs a lock of its own for its name.
type lockedSource struct {
	*scripted
	name func() string
}

func (s lockedSource) Name() string { return s.name() }

// TestNamesAreAskedForWithoutALock: a source may hold the lock that guards its name while it delivers, and so have its turn.
func TestNamesAreAskedForWithoutALock(t *testing.T) {
	var l *Loop
	var asked []string
	named := func(name string) Source {
		return lockedSource{newScripted(name), func() string {
			asked = append(asked, name)
			for what, mu := range map[string]interface {
				TryLock() bool
				Unlock()
			}{"mux": &l.mux.mu, "sources": &l.sources.mu} {
				if !mu.TryLock() { // nothing else runs
					t.Fatalf("the name is asked for with the lock of %s held", what)
				}
				mu.Unlock()
			}
			if len(l.mux.turn) > 0 {
				t.Fatal("the name is asked for in a source's turn")
			}
			return name
		}}
	}
	l, err := New(func(Work) {}, Options{Sources: []Source{newScripted("file")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"first", "second"} {
		if err := l.AddSource(t.Context(), named(s)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.AddSource(t.Context(), named("first")); err == nil {
		t.Error("two sources have one name")
	}
	l.Problems()
	if len(l.Sources()) != 3 || l.Undecided() != nil || l.Ready() {
		t.Errorf("%+v", l.Sources())
	}
	if !slices.Equal(asked, []string{"first", "second", "first"}) {
		t.Errorf("asked for the names of %q: each is asked once when it is added", asked)
	}
}

// TestSourceDeliversUnderALockWhileAnotherIsAdded: IN6. A source needs the lock of its deliveries for its name, too, and begins
// one while another source is added. Neither waits for the other.
func TestSourceDeliversUnderALockWhileAnotherIsAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, l := &sharing{scripted: newScripted("first")}, &log{}
		loop, stop := run(t, l, Options{Sources: []Source{first}})
		defer stop()
		added := asking{newScripted("other"), func() {
			first.set(newPod("a", "a"))
			for range 1000 { // until it delivers, or has delivered
				if !first.mu.TryLock() {
					return
				}
				first.mu.Unlock()
				runtime.Gosched()
			}
		}}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := loop.AddSource(soon, added); err != nil {
			t.Errorf("AddSource: %v", err)
		}
		l.want(t, "the set", "create a")
		if all := loop.Sources(); len(all) != 2 || !all[0].Seen || all[0].Name != "first" || all[0].Precedence != PrecedenceFile {
			t.Errorf("%+v", all)
		}
	})
}

// asking is a source that does something when it is asked for its precedence.
type asking struct {
	*scripted
	asked func()
}

func (a asking) Precedence() Precedence {
	a.asked()
	return PrecedenceFile
}

// sharing is a source that holds a lock while it delivers, and needs it for its name and precedence.
type sharing struct {
	*scripted
	mu sync.Mutex
}

func (s *sharing) Name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scripted.Name()
}

func (s *sharing) Precedence() Precedence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return PrecedenceFile
}

func (s *sharing) Run(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) error {
	return s.scripted.Run(ctx, func(ctx context.Context, pods []*v1.Pod) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return deliver(ctx, pods)
	})
}
