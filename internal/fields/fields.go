package fields

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Verdict says what becomes of a field.
type Verdict string

// The verdicts.
const (
	Honoured Verdict = "honoured"
	Refused  Verdict = "refused"
	Waits    Verdict = "waits"
	NoEffect Verdict = "no effect"
)

// Row is the verdict on some fields of one type.
type Row struct {
	// Type is the Go type's name, Fields the names of fields in JSON, separated by spaces.
	Type, Fields string
	Verdict      Verdict
	// Why is the reason that a refused or waiting pod shows, or why the field has no effect; for an
	// honoured field, whatever else is worth knowing, often nothing.
	Why string
	// Decided is the file and function that decide, Test the folder and test that prove it; the two
	// parts are separated by a space. Empty for no effect.
	Decided, Test string
}

// Check compares the table with a type and everything reachable from it: missing are fields without
// a verdict; unknown are verdicts on fields that do not exist or have two verdicts; both as
// Type.field, sorted. It enters the types of core/v1 and of root's own package, but nothing below a
// field that is not honoured.
func Check(root reflect.Type, table []Row) (missing, unknown []string) {
	verdicts, reached, entered := map[string]Verdict{}, map[string]bool{}, map[reflect.Type]bool{}
	for _, row := range table {
		for field := range strings.FieldsSeq(row.Fields) {
			name := row.Type + "." + field
			if verdicts[name] != "" {
				unknown = append(unknown, name+" (twice)")
			}
			verdicts[name] = row.Verdict
		}
	}
	packages := []string{root.PkgPath(), reflect.TypeFor[v1.PodSpec]().PkgPath()}
	var enter func(t reflect.Type)
	enter = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || entered[t] || !slices.Contains(packages, t.PkgPath()) {
			return
		}
		entered[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			field, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous && (field == "" || strings.Contains(options, "inline")) {
				enter(f.Type)
				continue
			}
			name := t.Name() + "." + cmp.Or(field, f.Name)
			reached[name] = true
			switch verdicts[name] {
			case "":
				missing = append(missing, name)
			case Honoured:
				enter(f.Type)
			}
		}
	}
	enter(root)
	for name := range verdicts {
		if !reached[name] {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(missing)
	slices.Sort(unknown)
	return missing, unknown
}

// Markdown returns the table in the form of docs/fields.md.
func Markdown(table []Row) string {
	var b strings.Builder
	b.WriteString(`# What becomes of each field of a pod

The rules are in [spec/fields.md](spec/fields.md). ` + "`make fields`" + ` writes this page from ` + "`internal/fields`" + `; a test compares it with the types of core/v1, with the
code and with the tests it names. A field is named by its Go type and its name in manifests.

| field | verdict | | decided by | shown by |
|---|---|---|---|---|
`)
	for _, row := range table {
		var names []string
		for field := range strings.FieldsSeq(row.Fields) {
			names = append(names, "`"+row.Type+"."+field+"`")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", strings.Join(names, " "), row.Verdict, row.Why, place(row.Decided), place(row.Test))
	}
	return b.String()
}

// place formats a file and a name in it.
func place(text string) string {
	file, name, ok := strings.Cut(text, " ")
	if !ok {
		return ""
	}
	return "`" + file + "` `" + name + "`"
}
