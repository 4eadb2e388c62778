package podinfo

import (
	"fmt"
	"strings"
	"unicode"
)

// maxName is the longest path element Linux takes.
const maxName = 255

// CheckName reports why name cannot be a path element, as a UID or the name of a container or volume has to be (M9), nil if it can.
// what names the thing in the error.
func CheckName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty", what)
	case len(name) > maxName:
		return fmt.Errorf("%s has %d bytes, more than a path element can have", what, len(name))
	case name == "." || name == "..":
		return fmt.Errorf("%s %q is not a name", what, name)
	case strings.ContainsRune(name, '/'):
		return fmt.Errorf("%s %q contains a slash", what, name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%s %q contains a control character", what, name)
	}
	return nil
}
