package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"
)

// output is where a command prints. It remembers the first failure, for example a full disk: a
// command whose output is incomplete has failed.
type output struct {
	to io.Writer

	mu     sync.Mutex
	failed error
}

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.failed == nil {
			o.failed = err
		}
	}
	return n, err
}

// err returns the first failure to print, nil if everything was printed.
func (o *output) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == nil {
		return nil
	}
	return fmt.Errorf("the output is not whole: %w", o.failed)
}

// fileOf returns the file that w prints to, false if it is not a file.
func fileOf(w io.Writer) (*os.File, bool) {
	if o, ok := w.(*output); ok {
		w = o.to
	}
	f, ok := w.(*os.File)
	return f, ok
}

// say prints one line, made safe for a terminal.
func say(c *cobra.Command, text string) error {
	_, err := fmt.Fprintln(c.OutOrStdout(), printable(text))
	return err
}
