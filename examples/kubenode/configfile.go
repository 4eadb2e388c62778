package main

import (
	"flag"

	"github.com/podwright/podwright/examples/internal/configfile"
)

// repeatable is a flag that may be given several times: a list or a map in the file of --config.
type repeatable interface {
	flag.Value
	repeatable()
}

// readConfigFile reads from the file of --config what the command line does not set. The file's
// fields are the names of the flags. Without a file nothing changes.
func readConfigFile(flags *flag.FlagSet, file string) error {
	if file == "" {
		return nil
	}
	return configfile.Read(file, "kubenode", settings(flags))
}

// settings finds flags by their names.
func settings(flags *flag.FlagSet) func(name string) (configfile.Setting, bool) {
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return func(name string) (configfile.Setting, bool) {
		f := flags.Lookup(name)
		if f == nil {
			return configfile.Setting{}, false
		}
		s := configfile.Setting{Given: given[name], Set: func(text string) error { return flags.Set(name, text) }}
		if _, many := f.Value.(repeatable); many {
			s.Kind = configfile.Several
		} else if getter, ok := f.Value.(flag.Getter); ok {
			if _, text := getter.Get().(string); text {
				s.Kind = configfile.Text
			}
		}
		return s, true
	}
}
