package optioncheck

import (
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Part holds the options of one part as the user gave them.
type Part struct {
	// Group is the field of the configuration, Options the struct in it.
	Group   string
	Options any
	// Engine lists the fields that the engine sets, with the field of the configuration to use
	// instead, or "" if there is none.
	Engine map[string]string
	// Negative are the durations that may be negative.
	Negative []string
}

// Check returns what is wrong: options that the engine sets, and negative durations.
func Check(parts []Part) (problems []error) {
	for _, part := range parts {
		v := reflect.ValueOf(part.Options)
		for i := range v.NumField() {
			name, field := v.Type().Field(i).Name, v.Field(i)
			instead, engines := part.Engine[name]
			d, isDuration := field.Interface().(time.Duration)
			switch {
			case engines && !field.IsZero() && instead != "":
				problems = append(problems, fmt.Errorf("%s.%s is set by the engine: use %s", part.Group, name, instead))
			case engines && !field.IsZero():
				problems = append(problems, fmt.Errorf("%s.%s is set by the engine: leave it empty", part.Group, name))
			case isDuration && d < 0 && !slices.Contains(part.Negative, name):
				problems = append(problems, fmt.Errorf("%s.%s is negative: %v", part.Group, name, d))
			}
		}
	}
	return problems
}
