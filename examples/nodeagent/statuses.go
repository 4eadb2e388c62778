package main

import (
	"fmt"
	"io"

	"github.com/podwright/podwright/status"
)

// openStatuses returns the sink that --statuses asks for, if any, and what closes it.
func openStatuses(path string) ([]status.StatusSink, io.Closer, error) {
	if path == "" {
		return nil, io.NopCloser(nil), nil
	}
	sink, err := status.OpenJSONLinesSink(path, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("--statuses: %w", err)
	}
	return []status.StatusSink{sink}, sink, nil
}
