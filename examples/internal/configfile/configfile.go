// Package configfile reads a program's settings from a YAML file whose fields are named after the
// program's flags.
//
//	file ─► owner and mode ─► YAML ─► field by field ─► Setting.Set
//	                                    └ skipped where the command line sets the flag
//
// The file may name programs that run as the user of the agent, so a file that other users can
// change is refused.
package configfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/internal/privatedir"
)

// Kind says which values a field may have.
type Kind int

const (
	// Plain is a number, true, false, or text that Set understands.
	Plain Kind = iota
	// Text is always text: a value that looks like a number, true or false needs quotes.
	Text
	// Several is a list, or a map whose entries are KEY=VALUE.
	Several
)

// maxSize bounds the size of a file, in bytes.
const maxSize = 1 << 20

// Setting is one flag as the file sees it.
type Setting struct {
	// Given means that the command line sets the flag, which takes precedence.
	Given bool
	Kind  Kind
	Set   func(value string) error
}

// Read sets from the file of --config what the command line does not set; setting finds a flag by
// its name. The error names everything that is wrong.
func Read(file, program string, setting func(name string) (Setting, bool)) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("--config %s: %w", file, err)
	}
	if err := privatedir.CheckFile(path); err != nil {
		return fmt.Errorf("--config %s: %w", file, err)
	}
	content, err := load(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	if err := Apply(content, program, setting); err != nil {
		return fmt.Errorf("--config %s: %w", file, err)
	}
	return nil
}

// load reads a regular file of at most maxSize bytes. Nothing else is read: a pipe would hold up the program.
func load(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err == nil && len(content) > maxSize {
		err = fmt.Errorf("%s has more than %d bytes, which is no file of settings", path, maxSize)
	}
	return content, err
}

// Apply is [Read] for the content of a file.
func Apply(content []byte, program string, setting func(name string) (Setting, bool)) error {
	var fields map[string]json.RawMessage
	if err := yaml.UnmarshalStrict(content, &fields); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return errors.New("it has no fields: want lines such as NAME: VALUE, with the names of flags")
		}
		return err
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		s, known := setting(name)
		switch {
		case !known:
			problems = append(problems, fmt.Errorf("there is no field %q: %s --help lists them, without the dashes", name, program))
		case name == "config":
			problems = append(problems, errors.New(`the field "config" belongs on the command line`))
		case !s.Given:
			if err := s.apply(fields[name]); err != nil {
				problems = append(problems, fmt.Errorf("the field %q: %w", name, err))
			}
		}
	}
	return errors.Join(problems...)
}

// apply sets one flag to the file's value, which has been converted to JSON.
func (s Setting) apply(value json.RawMessage) error {
	texts := []string{string(value)}
	switch s.Kind {
	case Several:
		var err error
		if texts, err = several(value); err != nil {
			return err
		}
	case Text:
		if json.Unmarshal(value, &texts[0]) != nil || string(value) == "null" {
			return errors.New("want text, in quotes if it looks like a number, true or false")
		}
	default:
		if json.Unmarshal(value, &texts[0]) != nil { // a number, true or false, kept as written
			texts[0] = string(value)
		}
	}
	for _, text := range texts {
		if err := s.Set(text); err != nil {
			return err
		}
	}
	return nil
}

// several returns the values of a flag that may be repeated.
func several(value json.RawMessage) (texts []string, err error) {
	var list []string
	if json.Unmarshal(value, &list) == nil {
		return list, nil
	}
	var entries map[string]string
	if json.Unmarshal(value, &entries) != nil {
		return nil, errors.New("want a list or a map of texts, in quotes if they look like numbers, true or false")
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		texts = append(texts, key+"="+entries[key])
	}
	return texts, nil
}
