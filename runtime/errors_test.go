package runtime_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/podwright/podwright/runtime"
)

// The method set is that of other CRI clients' exit errors.
func TestExitError(t *testing.T) {
	var err error = fmt.Errorf("probe: %w", &runtime.ExitError{Code: 42})
	var exit interface {
		error
		String() string
		Exited() bool
		ExitStatus() int
	}
	if !errors.As(err, &exit) || exit.ExitStatus() != 42 || !exit.Exited() || exit.String() != exit.Error() {
		t.Errorf("got %+v", exit)
	}
}
