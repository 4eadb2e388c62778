//go:build !linux

package credentials

import (
	"context"
	"fmt"
	"runtime"
)

// execute always fails here: plugins and their children can be killed reliably only on Linux.
func execute(context.Context, command) (output, error) {
	return output{}, fmt.Errorf("credential plugins need Linux, this is %s", runtime.GOOS)
}
