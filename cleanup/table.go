package cleanup

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteTable writes the plan as a table, one line per action: what would be done to what, and why,
// or the rule that forbids it (DR4). Equal plans give equal tables. Names come from manifests and
// runtimes; unprintable ones are quoted.
func (p Plan) WriteTable(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ACTION\tOBJECT\tPOD UID\tAGE\tSIZE\tVERDICT\tWHY") // Flush reports errors
	for _, a := range p.Actions {
		verdict, why := "do", a.Reason
		if !a.Allowed() {
			verdict, why = "keep", a.Forbidden.String()
		}
		age, size := "-", "-"
		if a.Age.Duration != 0 {
			age = a.Age.Duration.String()
		}
		if a.Size != 0 {
			size = strconv.FormatInt(a.Size, 10)
		}
		uid := string(a.PodUID)
		if uid == "" {
			uid = "-"
		}
		fmt.Fprintln(table, strings.Join([]string{a.Step.String(), printable(a.Object.String()), printable(uid), age, size, verdict, printable(why)}, "\t"))
	}
	return table.Flush()
}

// printable quotes text that would break a line, a column or a terminal.
func printable(s string) string {
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}
