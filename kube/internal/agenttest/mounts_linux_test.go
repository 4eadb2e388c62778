package agenttest

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

// unmountBelow ends the mounts at a folder and below.
func unmountBelow(dir string) (err error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if point := strings.Fields(line)[1]; point == dir || strings.HasPrefix(point, dir+"/") {
			err = errors.Join(err, syscall.Unmount(point, 0))
		}
	}
	return err
}
