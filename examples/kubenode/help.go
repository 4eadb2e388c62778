package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

const helpText = `kubenode makes this machine a node of a Kubernetes cluster: it runs the pods that the scheduler
binds to it on a CRI runtime, as a kubelet does.

  kubenode --kubeconfig FILE [FLAG...]
  kubenode --config FILE [FLAG...]

SIGTERM or SIGINT ends it and leaves the pods running; started again it goes on with them.

Flags, which are the fields of the file of --config too:
`

// writeHelp lists the flags in the order of their names.
func writeHelp(w io.Writer, flags *flag.FlagSet) {
	fmt.Fprint(w, helpText)
	flags.VisitAll(func(f *flag.Flag) {
		name, text := flag.UnquoteUsage(f)
		line := "  --" + f.Name
		if name != "" {
			line += " " + strings.ToUpper(name)
		}
		fmt.Fprintln(w, line)
		if f.DefValue != "" && f.DefValue != "map[]" && f.DefValue != "false" {
			text += " (default " + f.DefValue + ")"
		}
		fmt.Fprintln(w, "      "+wrap(text, 90, "\n      "))
	})
}

// wrap breaks text at spaces so that no line exceeds width bytes, unless a single word is longer.
func wrap(text string, width int, separator string) string {
	var out strings.Builder
	length := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case length+1+len(word) > width:
			out.WriteString(separator)
			length = 0
		default:
			out.WriteByte(' ')
			length++
		}
		out.WriteString(word)
		length += len(word)
	}
	return out.String()
}
