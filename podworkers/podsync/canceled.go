package podsync

import (
	"context"
	"errors"
	"fmt"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// canceled lets errors.Is find [runtime.ErrCanceled] in the error of a call that was cut off, whatever CRI client
// made the call. So the workers, which know no CRI, can tell a canceled step from a failed one (spec/podworkers.md C1).
func canceled(err error) error {
	if cri.Class(err) != runtime.ErrCanceled || errors.Is(err, runtime.ErrCanceled) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", runtime.ErrCanceled, err)
}
