package pullrecords

import (
	"os"

	"github.com/podwright/podwright/internal/durable"
)

// Replacing returns the store with a function that is called with the name of each file before it is replaced, and
// synced.
func (s FileStore) Replacing(name func(string)) FileStore {
	s.replace = func(root *os.Root, file string, data []byte) error {
		name(file)
		return durable.Write(root, file, data)
	}
	return s
}
