package criconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/expand"
)

// Environment is a container's environment in declared order.
type Environment struct {
	// Skipped are keys of envFrom that cannot be the name of a variable.
	Skipped []Skipped

	names  []string
	values map[string]string
	// secret has the variables that hold something of a secret or of a file.
	secret map[string]bool
	size   int
}

// Skipped are the keys, with their prefix, of one config map or secret that cannot
// be names of variables.
type Skipped struct {
	// Kind is ConfigMap or Secret.
	Kind, Name string
	Keys       []string
}

// set keeps the place of the first declaration and the value of the last.
func (e *Environment) set(name, value string) error {
	old, known := e.values[name]
	if !known {
		e.names = append(e.names, name)
	}
	e.size += len(name) + len(value) - len(old)
	e.values[name] = value
	switch {
	case strings.ContainsRune(value, 0):
		return errors.New("the value holds a zero byte")
	case len(name)+1+len(value) > expand.MaxString():
		return fmt.Errorf("with its value of %d bytes it is longer than the %d bytes a program can take", len(value), expand.MaxString())
	case e.size > maxTotal:
		return fmt.Errorf("with it the environment is larger than the %d bytes a program can take", maxTotal)
	}
	return nil
}

// Lookup returns a variable.
func (e *Environment) Lookup(name string) (string, bool) {
	value, ok := e.values[name]
	return value, ok
}

// KeyValues returns the environment as the runtime takes it.
func (e *Environment) KeyValues() []*runtimeapi.KeyValue {
	out := make([]*runtimeapi.KeyValue, 0, len(e.names))
	for _, name := range e.names {
		out = append(out, &runtimeapi.KeyValue{Key: name, Value: []byte(e.values[name])})
	}
	return out
}

// minSecret is the length of the shortest value to hide: blanking out every "1" or
// "yes" would hide the message, and the gaps would show the value.
const minSecret = 4

// Redact removes values of secrets and files from a message: runtimes quote arguments
// and paths, which may contain expanded variables.
func (e *Environment) Redact(text string) string {
	if e == nil || text == "" {
		return text
	}
	var hidden []string
	for _, name := range slices.Sorted(maps.Keys(e.secret)) {
		value := e.values[name]
		if !e.secret[name] {
			continue
		}
		quoted := strconv.Quote(value)
		for _, form := range []string{value, strings.TrimSpace(value), quoted[1 : len(quoted)-1]} {
			if len(form) >= minSecret {
				hidden = append(hidden, form)
			}
		}
	}
	// The longest first: replacing a part of a value first would leave the rest of it visible.
	slices.SortStableFunc(hidden, func(a, b string) int { return len(b) - len(a) })
	for _, value := range hidden {
		text = strings.ReplaceAll(text, value, "[redacted]")
	}
	return text
}
