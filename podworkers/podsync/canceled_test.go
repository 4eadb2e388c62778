package podsync

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// TestCallCutOffIsCanceledWithAnyClient: C1: the error of a call that was cut off matches ErrCanceled even if a
// CRI client other than this module's made it; every other error is unchanged.
func TestCallCutOffIsCanceledWithAnyClient(t *testing.T) {
	raw := fmt.Errorf("stop: %w", status.Error(codes.Canceled, "context canceled"))
	for name, row := range map[string]struct {
		failure  error
		canceled bool
	}{
		"a gRPC status":   {raw, true},
		"the sentinel":    {runtime.ErrCanceled, true},
		"a context":       {context.Canceled, false}, // the workers know it without a wrapper
		"another failure": {status.Error(codes.Internal, "canceled"), false},
	} {
		t.Run(name, func(t *testing.T) {
			steps := map[string]func(*Syncer) error{
				"SyncPod": func(s *Syncer) error {
					_, err := s.SyncPod(t.Context(), podworkers.Create, web(), nil, nothing())
					return err
				},
				"KillPod": func(s *Syncer) error {
					return s.SyncTerminatingPod(t.Context(), web(), viewOf(runtime.Running), nil, nil)
				},
				"KillListed":     func(s *Syncer) error { return s.StopUnseen(t.Context(), web(), nil) },
				"KillRuntimePod": func(s *Syncer) error { return s.SyncTerminatingRuntimePod(t.Context(), &runtime.Pod{UID: "u"}) },
				"DestroyCgroup":  func(s *Syncer) error { return s.SyncTerminatedPod(t.Context(), web(), viewOf(runtime.Exited)) },
			}
			for call, step := range steps {
				n := newNode(t)
				n.view, n.fail[call], n.failure = viewOf(runtime.Exited), true, row.failure
				err := step(n.syncer())
				if !errors.Is(err, row.failure) || errors.Is(err, runtime.ErrCanceled) != row.canceled {
					t.Errorf("%s: %v", call, err)
				}
			}
		})
	}
}
