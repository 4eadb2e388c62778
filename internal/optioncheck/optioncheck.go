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
			switch {
			case engines && !field.IsZero() && instead != "":
				problems = append(problems, fmt.Errorf("%s.%s is set by the engine: use %s", part.Group, name, instead))
			case engines && !field.IsZero():
				problems = append(problems, fmt.Errorf("%s.%s is set by the engine: leave it empty", part.Group, name))
			case !engines && !slices.Contains(part.Negative, name):
				problems = append(problems, negative(part.Group+"."+name, field)...)
			}
		}
	}
	return problems
}

// negative returns the negative durations of a field, and of the fields of a struct in it.
func negative(path string, field reflect.Value) (problems []error) {
	if d, isDuration := field.Interface().(time.Duration); isDuration && d < 0 {
		return []error{fmt.Errorf("%s is negative: %v", path, d)}
	}
	for i := 0; field.Kind() == reflect.Struct && i < field.NumField(); i++ {
		if f := field.Type().Field(i); f.IsExported() {
			problems = append(problems, negative(path+"."+f.Name, field.Field(i))...)
		}
	}
	return problems
}
