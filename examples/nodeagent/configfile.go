package main

import (
	"github.com/spf13/pflag"

	"github.com/podwright/podwright/examples/internal/configfile"
)

// configVariable names the file of --config when the flag is absent.
const configVariable = "NODEAGENT_CONFIG"

// readConfigFile reads from a file what the command line does not set. The file's fields are the
// names of the flags. Without a file nothing changes.
func readConfigFile(flags *pflag.FlagSet, file string) error {
	if file == "" {
		return nil
	}
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	return configfile.Read(file, "nodeagent run", func(name string) (configfile.Setting, bool) {
		f := flags.Lookup(name)
		if f == nil || name == "help" {
			return configfile.Setting{}, false
		}
		s := configfile.Setting{Given: given[name], Set: func(text string) error { return flags.Set(name, text) }}
		switch f.Value.Type() {
		case "func":
			s.Kind = configfile.Several
		case "string":
			s.Kind = configfile.Text
		}
		return s, true
	})
}
