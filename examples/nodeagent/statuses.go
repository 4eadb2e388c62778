package main

import (
	"fmt"
	"io"
	"os"

	"github.com/podwright/podwright/status"
)

// openStatuses returns the sink that --statuses asks for, none without it, and what
// closes it.
func openStatuses(path string) ([]status.StatusSink, io.Closer, error) {
	if path == "" {
		return nil, io.NopCloser(nil), nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("--statuses: %w", err)
	}
	return []status.StatusSink{status.NewJSONLinesSink(f, nil)}, f, nil
}
