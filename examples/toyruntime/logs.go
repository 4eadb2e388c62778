package toyruntime

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/podwright/podwright/runtime"
)

// logStream writes what a process prints to its log, line by line in the CRI's format: time,
// stream, tag, text. The tag is P for a partial line, and F for the end of one.
type logStream struct {
	log  *os.File
	name string
}

func (l logStream) Write(p []byte) (int, error) {
	var entries bytes.Buffer
	for line := range bytes.Lines(p) {
		tag := "F"
		if line[len(line)-1] != '\n' {
			tag, line = "P", append(line[:len(line):len(line)], '\n')
		}
		fmt.Fprintf(&entries, "%s %s %s %s", time.Now().Format(time.RFC3339Nano), l.name, tag, line)
	}
	if _, err := entries.WriteTo(l.log); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ReopenContainerLog implements [cri.ContainerManager]: this runtime does not rotate logs.
func (r *Runtime) ReopenContainerLog(context.Context, string) error { return runtime.ErrUnimplemented }
