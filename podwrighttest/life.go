package podwrighttest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/status"
)

// life is what one engine reaches its records, sinks and recorder with. Each engine has its own, because calls that Run did
// not wait for may go on while the next engine runs.
type life struct{ over atomic.Bool }

var errDead = errors.New("the engine is dead")

// alive returns errDead once the engine has crashed: nothing it does counts any more.
func (l *life) alive() error {
	if l.over.Load() {
		return errDead
	}
	return nil
}

// write runs before and after each operation on the disk.
func (l *life) write(checkpointtest.Op) error { return l.alive() }

// bound ends the sinks and the recorder with the life.
func (l *life) bound(o *podwright.Observe) {
	sinks := make([]status.StatusSink, 0, len(o.Sinks))
	for i, s := range o.Sinks {
		sinks = append(sinks, l.sink(s, i))
	}
	o.Sinks = sinks
	switch o.Events.(type) {
	case nil, podinfo.DiscardEvents:
	default:
		o.Events = boundEvents{l, o.Events}
	}
}

type boundEvents struct {
	life *life
	to   podwright.EventRecorder
}

func (b boundEvents) Eventf(object apiruntime.Object, eventtype, reason, format string, args ...any) {
	if b.life.alive() == nil {
		b.to.Eventf(object, eventtype, reason, format, args...)
	}
}

// sink returns a sink with the abilities and the name that s has. The engine refuses nil, and a sink that
// keeps statuses without a name: those stay as they are.
func (l *life) sink(s status.StatusSink, index int) status.StatusSink {
	reader, reads := s.(status.PodReader)
	deleter, deletes := s.(status.PodDeleter)
	keeps := reads
	if p, ok := s.(status.Persistent); ok {
		keeps = p.Persistent()
	}
	name := fmt.Sprintf("%d:%T", index, s)
	if named, ok := s.(interface{ Name() string }); ok {
		name = named.Name()
	} else if s == nil || keeps {
		return s
	}
	b := boundSink{life: l, to: s, name: name, keeps: keeps}
	switch {
	case reads && deletes:
		return struct {
			boundSink
			boundReader
			boundDeleter
		}{b, boundReader{l, reader}, boundDeleter{l, deleter}}
	case reads:
		return struct {
			boundSink
			boundReader
		}{b, boundReader{l, reader}}
	case deletes:
		return struct {
			boundSink
			boundDeleter
		}{b, boundDeleter{l, deleter}}
	}
	return b
}

type boundSink struct {
	life  *life
	to    status.StatusSink
	name  string
	keeps bool
}

func (b boundSink) Name() string     { return b.name }
func (b boundSink) Persistent() bool { return b.keeps }

func (b boundSink) Store(ctx context.Context, u status.Update) (status.StoreResult, error) {
	if err := b.life.alive(); err != nil {
		return 0, err
	}
	return b.to.Store(ctx, u)
}

type boundReader struct {
	life *life
	to   status.PodReader
}

func (b boundReader) ReadPod(ctx context.Context, ref status.PodRef) (*v1.Pod, error) {
	if err := b.life.alive(); err != nil {
		return nil, err
	}
	return b.to.ReadPod(ctx, ref)
}

type boundDeleter struct {
	life *life
	to   status.PodDeleter
}

func (b boundDeleter) DeletePod(ctx context.Context, ref status.PodRef) error {
	if err := b.life.alive(); err != nil {
		return err
	}
	return b.to.DeletePod(ctx, ref)
}
