package syncloop

import (
	"context"
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

// TestNamesAreAskedForWithoutALock: a source may hold the lock that guards its name while it delivers.
func TestNamesAreAskedForWithoutALock(t *testing.T) {
	var l *Loop
	named := func(name string) Source {
		return lockedSource{newScripted(name), func() string {
			for what, mu := range map[string]interface {
				TryLock() bool
				Unlock()
			}{"mux": &l.mux.mu, "sources": &l.sources.mu} {
				if !mu.TryLock() { // nothing else runs
					t.Fatalf("the name is asked for with the lock of %s held", what)
				}
				mu.Unlock()
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
}
