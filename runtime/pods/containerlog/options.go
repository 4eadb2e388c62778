package containerlog

import (
	"errors"
	"fmt"
	"time"
)

// Streams of a container, values of [Options.Stream].
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Options say what of a log is shown. The zero value shows all that is there now.
type Options struct {
	// Follow waits for more until the container has ended.
	Follow bool
	// Previous shows the run before. Only the code that chooses the run looks at it.
	Previous bool
	// Since leaves out what was written before that time. Zero: nothing is left out.
	Since time.Time
	// Tail is how many lines from the end are shown at first; nil: all. Since and Stream
	// then apply to these lines only, but with a Stream, only its own lines count.
	Tail *int64
	// LimitBytes ends the output after this many bytes, within a line if need be; nil: no limit.
	LimitBytes *int64
	// Timestamps starts each line with the time at which it began, RFC 3339 with nanoseconds.
	Timestamps bool
	// Stream is [Stdout], [Stderr], or empty for both in the order of writing.
	Stream string
	// Ended reports that the container writes no more. It is called a few times a second by the
	// reading goroutine while Follow waits, and must not block. Nil: it never ends.
	Ended func() bool
}

// Check returns what is wrong with the options, all problems joined.
func (o *Options) Check() error {
	var problems []error
	if o.Tail != nil && *o.Tail < 0 {
		problems = append(problems, fmt.Errorf("tailLines: %d is negative; it must be greater than or equal to 0", *o.Tail))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		problems = append(problems, fmt.Errorf("limitBytes: %d must be greater than 0", *o.LimitBytes))
	}
	if o.Stream != "" && o.Stream != Stdout && o.Stream != Stderr {
		problems = append(problems, fmt.Errorf("stream: %q is neither %s nor %s", o.Stream, Stdout, Stderr))
	}
	return errors.Join(problems...)
}
