package node

import (
	"os"
	"strings"
)

// KernelRelease is what uname -r prints, "" if the machine does not say.
func KernelRelease() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(release))
}
