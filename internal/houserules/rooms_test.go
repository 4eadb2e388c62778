package houserules

import (
	"maps"
	"path"
	"regexp"
	"slices"
)

// roomsHeading begins the table of what each package owns.
const roomsHeading = "## Rooms"

func roomRules() []rule {
	page := func(rows string) string {
		return "# The house\n\n" + roomsHeading + "\n| package | owns | must not know |\n|---|---|---|\n" + rows + "\n## Next\n"
	}
	return []rule{{
		name: "every room is listed", check: roomsAreListed,
		breach: map[string]string{
			"docs/ARCHITECTURE.md": page("| `internal/rule`, `seal` | words | `tree` |\n"),
			"internal/rule/a.go":   "package rule\n", "internal/seal/a.go": "package seal\n", "internal/tree/a.go": "package tree\n",
			"internal/treetest/a_test.go": "package treetest\n", "pleg/a.go": "package pleg\n",
		},
		keeps: map[string]string{
			"docs/ARCHITECTURE.md": page("| `pleg` | words | |\n| `internal/rule`, `seal` | words | |\n"),
			"internal/rule/a.go":   "package rule\n", "internal/seal/a.go": "package seal\n", "pleg/internal/a/a.go": "package a\n", "a.go": "package podwright\n",
		},
		finds: []string{"internal/tree has", "internal/treetest has", "pleg has"},
	}}
}

var (
	roomPath = regexp.MustCompile("`([^`]+)`")
	// roomDir is a folder at the top or directly below internal.
	roomDir = regexp.MustCompile(`^(internal/)?[^/.]+$`)
)

// roomsAreListed wants a row in the table of rooms for every folder with code at the top and
// below internal. A row may name several: `internal/rule`, `seal`.
func roomsAreListed(tr *tree, report report) {
	listed := map[string]bool{}
	for _, row := range tableRows(tr, "docs/ARCHITECTURE.md", roomsHeading) {
		parent := ""
		for _, m := range roomPath.FindAllStringSubmatch(row[0], -1) {
			if path.Dir(m[1]) == "internal" {
				parent = "internal"
			}
			listed[path.Join(parent, path.Base(m[1]))] = true
		}
	}
	rooms := map[string]bool{}
	for _, s := range tr.files {
		if roomDir.MatchString(s.dir) {
			rooms[s.dir] = true
		}
	}
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		if !listed[room] {
			report("%s has code, but no row in the table of rooms", room)
		}
	}
}
