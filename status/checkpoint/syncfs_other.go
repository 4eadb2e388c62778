//go:build !linux

package checkpoint

import (
	"errors"
	"os"
)

// syncFileSystem is not supported here; files are synced one by one.
func syncFileSystem(*os.File) error { return errors.ErrUnsupported }
