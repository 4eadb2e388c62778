package kube

import (
	"context"
	"errors"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/kube/node"
	"github.com/podwright/podwright/kube/statussink"
	"github.com/podwright/podwright/status"
)

// taken is why this machine must not be the Node: another one was it when the API server answered last (KN1). That machine runs
// the pods which this one may remember, for example if this one is its copy.
type taken struct{ why atomic.Pointer[error] }

// note takes the result of a registration. Only an answer about the Node counts: an API server that is away takes back nothing.
func (t *taken) note(err error) {
	switch {
	case err == nil:
		t.why.Store(nil)
	case errors.Is(err, node.ErrTaken):
		t.why.Store(&err)
	}
}

// Withheld implements [recovery.Withholder].
func (t *taken) Withheld() error {
	if why := t.why.Load(); why != nil {
		return *why
	}
	return nil
}

// ownSink sends nothing of pods that another machine runs.
type ownSink struct {
	*statussink.Sink
	taken *taken
}

var (
	_ status.PodReader  = ownSink{}
	_ status.PodDeleter = ownSink{}
)

// ReadPod implements [status.PodReader]. Each status, and each deletion, begins with it.
func (s ownSink) ReadPod(ctx context.Context, ref status.PodRef) (*v1.Pod, error) {
	if err := s.taken.Withheld(); err != nil {
		return nil, err
	}
	return s.Sink.ReadPod(ctx, ref)
}
