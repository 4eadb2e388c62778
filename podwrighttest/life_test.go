package podwrighttest

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status"
)

type plainSink struct{}

func (plainSink) Store(context.Context, status.Update) (status.StoreResult, error) {
	return status.Stored, nil
}

type reading struct{}

func (reading) ReadPod(context.Context, status.PodRef) (*v1.Pod, error) { return nil, nil }

type deleting struct{}

func (deleting) DeletePod(context.Context, status.PodRef) error { return nil }

type keeping bool

func (k keeping) Persistent() bool { return bool(k) }

type called string

func (c called) Name() string { return string(c) }

// The engine finds the same abilities in a sink with and without its bounds, and after the end of the life
// none of them does anything.
func TestBoundSinksKeepTheirAbilities(t *testing.T) {
	for name, c := range map[string]struct {
		sink                      status.StatusSink
		reads, deletes, keeps, as bool // as: it stays as it is
		name                      string
	}{
		"none": {sink: plainSink{}, name: "3:podwrighttest.plainSink"},
		"nil":  {as: true},
		"named": {sink: struct {
			plainSink
			called
		}{called: "mine"}, name: "mine"},
		"keeps, named": {keeps: true, name: "mine", sink: struct {
			plainSink
			keeping
			called
		}{keeping: true, called: "mine"}},
		"keeps, no name": {as: true, sink: struct {
			plainSink
			keeping
		}{keeping: true}},
		"reads": {reads: true, keeps: true, name: "mine", sink: struct {
			plainSink
			reading
			called
		}{called: "mine"}},
		"reads, no name": {as: true, sink: struct {
			plainSink
			reading
		}{}},
		"reads, forgetful": {reads: true, name: "mine", sink: struct {
			plainSink
			reading
			keeping
			called
		}{called: "mine"}},
		"deletes": {deletes: true, name: "mine", sink: struct {
			plainSink
			deleting
			called
		}{called: "mine"}},
		"reads and deletes": {reads: true, deletes: true, keeps: true, name: "mine", sink: struct {
			plainSink
			reading
			deleting
			called
		}{called: "mine"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &life{}
			bound := l.sink(c.sink, 3)
			if c.as {
				if bound != c.sink {
					t.Errorf("it became a %T", bound)
				}
				return
			}
			reader, reads := bound.(status.PodReader)
			deleter, deletes := bound.(status.PodDeleter)
			keeps := bound.(status.Persistent).Persistent()
			if name := bound.(interface{ Name() string }).Name(); reads != c.reads || deletes != c.deletes || keeps != c.keeps || name != c.name {
				t.Errorf("reads %v, deletes %v, keeps %v, name %q", reads, deletes, keeps, name)
			}
			for _, want := range []error{nil, errDead} {
				l.over.Store(want != nil)
				if _, err := bound.Store(t.Context(), status.Update{}); !errors.Is(err, want) {
					t.Errorf("store: %v, want %v", err, want)
				}
				if reads {
					if _, err := reader.ReadPod(t.Context(), status.PodRef{}); !errors.Is(err, want) {
						t.Errorf("read: %v, want %v", err, want)
					}
				}
				if deletes {
					if err := deleter.DeletePod(t.Context(), status.PodRef{}); !errors.Is(err, want) {
						t.Errorf("delete: %v, want %v", err, want)
					}
				}
			}
		})
	}
}
