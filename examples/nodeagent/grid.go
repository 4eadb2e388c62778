package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// grid is a table: the first row names the columns.
type grid struct {
	rows [][]string
	// least are minimum widths of columns.
	least []int
	// paint returns the color of a cell below the first row, "" for none; nil means no colors.
	paint func(column, text string) string
}

func (g *grid) add(cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
	}
	g.rows = append(g.rows, cells)
}

// lines returns the rows, with three spaces between columns.
func (g *grid) lines() []string {
	widths := slices.Clone(g.least)
	for _, row := range g.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out []string
	for n, row := range g.rows {
		out = append(out, g.line(n, row, widths))
	}
	return out
}

func (g *grid) line(n int, row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		colour := ""
		if n > 0 && g.paint != nil {
			colour = g.paint(g.rows[0][i], cell)
		}
		b.WriteString(coloured(cell, colour))
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+3))
		}
	}
	return b.String()
}

// The colors of a terminal.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	grey   = "90"
)

func coloured(text, colour string) string {
	if colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// statusColour shows at a glance how a pod is doing.
func statusColour(column, text string) string {
	if column != "STATUS" && column != "TYPE" {
		return ""
	}
	switch {
	case text == "Running":
		return green
	case text == "Completed", text == "Succeeded", text == "Normal":
		return grey
	case text == "Pending", text == "ContainerCreating", text == "PodInitializing", text == "Terminating", text == "NotReady",
		strings.HasPrefix(text, "Init:") && strings.Contains(text, "/"):
		return yellow
	}
	return red
}

// colours reports whether w is a terminal that shows colors.
func colours(w io.Writer) bool {
	f, ok := fileOf(w)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
