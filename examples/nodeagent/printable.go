package main

import (
	"strings"
	"unicode"
)

// printable makes one line of text safe for a terminal: names, reasons and messages come from
// manifests, images, containers and runtimes. Control characters (C0, DEL and C1), line and
// paragraph separators and marks that change the direction of text become spaces; invalid bytes
// become U+FFFD.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			return ' '
		}
		return r
	}, line)
}

// printableLines is printable for a text that keeps its line ends.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return strings.Join(lines, "\n")
}
