package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/internal/privatedir"
)

// repeatable is a flag that may be given several times: a list or a map in the file of --config.
type repeatable interface {
	flag.Value
	repeatable()
}

// readConfigFile takes from the file of --config what the command line does not say. The file's
// fields are the names of the flags. Without a file nothing changes.
func readConfigFile(flags *flag.FlagSet, file string) error {
	if file == "" {
		return nil
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("--config %s: %w", file, err)
	}
	if err := privatedir.CheckFile(path); err != nil { // it names programs that run as the agent's user
		return fmt.Errorf("--config %s: %w", file, err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	if err := applyFile(flags, content); err != nil {
		return fmt.Errorf("--config %s: %w", file, err)
	}
	return nil
}

// applyFile sets the flags that are not set yet. Its error names all fields that are wrong.
func applyFile(flags *flag.FlagSet, content []byte) error {
	var fields map[string]json.RawMessage
	if err := yaml.UnmarshalStrict(content, &fields); err != nil {
		return err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f := flags.Lookup(name)
		switch {
		case f == nil:
			problems = append(problems, fmt.Errorf("there is no field %q: kubenode --help lists them, without the dashes", name))
		case name == "config":
			problems = append(problems, errors.New(`the field "config" belongs on the command line`))
		case !given[name]:
			if err := applyField(flags, f, fields[name]); err != nil {
				problems = append(problems, fmt.Errorf("the field %q: %w", name, err))
			}
		}
	}
	return errors.Join(problems...)
}

// applyField sets one flag to what the file says, which is JSON by now.
func applyField(flags *flag.FlagSet, f *flag.Flag, value json.RawMessage) error {
	texts := []string{string(value)}
	if _, many := f.Value.(repeatable); many {
		var err error
		if texts, err = several(value); err != nil {
			return err
		}
	} else if wants(f, "") {
		if json.Unmarshal(value, &texts[0]) != nil || string(value) == "null" {
			return errors.New("want text, in quotes if it looks like a number, true or false")
		}
	} else if err := json.Unmarshal(value, &texts[0]); err != nil { // a number, true or false as it is
		texts[0] = string(value)
	}
	for _, text := range texts {
		if err := flags.Set(f.Name, text); err != nil {
			return err
		}
	}
	return nil
}

// wants tells whether the values of a flag have the type of an example.
func wants[T any](f *flag.Flag, _ T) bool {
	getter, ok := f.Value.(flag.Getter)
	if !ok {
		return false
	}
	_, ok = getter.Get().(T)
	return ok
}

// several are the values of a flag that may be repeated: a list of them, or a map, each entry of
// which is KEY=VALUE.
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
