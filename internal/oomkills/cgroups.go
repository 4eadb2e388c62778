package oomkills

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// kills reads how many processes of a cgroup were killed, false if it is gone or its kernel does not count.
func (k *Kills) kills(path string) (int64, bool) {
	content, err := os.ReadFile(filepath.Join(k.finder.Top, path, k.file))
	if err != nil {
		return 0, false
	}
	return count(content)
}

// machine reads, from a file such as /proc/vmstat, how many processes the kernel has killed for lack of
// memory on the whole machine, wherever they belonged; false if the kernel does not count them.
func machine(vmstat string) (int64, bool) {
	content, err := os.ReadFile(vmstat)
	if err != nil {
		return 0, false
	}
	return count(content)
}

// count returns the number in the line oom_kill.
func count(content []byte) (int64, bool) {
	for line := range bytes.Lines(content) {
		if number, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("oom_kill ")); ok {
			n, err := strconv.ParseInt(string(number), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
