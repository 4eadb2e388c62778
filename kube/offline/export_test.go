package offline

import (
	"os"

	"github.com/podwright/podwright/internal/seal"
)

// Write replaces what writes the files, as a disk that is full does.
func (c *Cache) Write(with func(root *os.Root, name string, data []byte, write func(root *os.Root, name string, data []byte) error) error) {
	write := c.write
	c.write = func(root *os.Root, name string, data []byte) error { return with(root, name, data, write) }
}

// Frame is the file of a version with a body.
func Frame(version int, body []byte) []byte { return seal.Frame(magic, version, body) }

// ErrRunning is the error of a second Run.
var ErrRunning = errRunning
