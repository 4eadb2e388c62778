package podsync

import (
	"context"
	"errors"
	"fmt"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// canceled lets errors.Is find [runtime.ErrCanceled] in the error of a call that was cut off, whatever CRI
// client made the call. The workers, which know no CRI, tell such a step from one that failed (spec/podworkers.md C1).
func canceled(err error) error {
	if cri.Class(err) != runtime.ErrCanceled || errors.Is(err, runtime.ErrCanceled) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", runtime.ErrCanceled, err)
}
