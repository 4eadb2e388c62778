//go:build !linux

package checkpoint

import (
	"errors"
	"os"
)

// syncFileSystem does not exist here; files are synced one by one.
func syncFileSystem(*os.File) error { return errors.ErrUnsupported }
