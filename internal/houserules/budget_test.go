package houserules

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// namesHeading begins the table of packages with many exported names.
	namesHeading = "## Packages with many exported names"
	// maxNames is how many exported names need no reason.
	maxNames = 25
)

// namesCount is the first line of a file below api/.
var namesCount = regexp.MustCompile(`^# (\S+): (\d+) exported names`)

// manyNamesHaveReasons compares the table of packages with many exported names with what
// api/ records.
func manyNamesHaveReasons(tr *tree, report report) {
	counts := map[string]int{}
	for _, text := range tr.texts {
		if !strings.HasPrefix(text.path, "api/") || !strings.HasSuffix(text.path, ".txt") {
			continue
		}
		m := namesCount.FindStringSubmatch(text.content)
		if m == nil {
			report("%s does not begin with the number of exported names; run make api", text.path)
			continue
		}
		count, _ := strconv.Atoi(m[2]) // digits
		name := strings.TrimPrefix(strings.TrimPrefix(m[1], module), "/")
		if name == "" {
			name = "podwright"
		}
		counts[name] = count
	}
	seen := map[string]bool{}
	for _, row := range tableRows(tr, "docs/ARCHITECTURE.md", namesHeading) {
		if len(row) != 3 || row[2] == "" {
			report("row %q: want package, names and why", row)
			continue
		}
		name := strings.Trim(row[0], "`")
		count, exists := counts[name]
		switch {
		case seen[name]:
			report("%s has two rows", name)
		case !exists:
			report("%s has a row, but api/ has no such package", name)
		case count <= maxNames:
			report("%s has a row, but only %d exported names; up to %d need no reason", name, count, maxNames)
		case row[1] != strconv.Itoa(count):
			report("%s has %d exported names, its row says %s", name, count, row[1])
		}
		seen[name] = true
	}
	var missing []string
	for name, count := range counts {
		if count > maxNames && !seen[name] {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	for _, name := range missing {
		report("%s has %d exported names, and no row that says why", name, counts[name])
	}
}

// tableRows are the cells of the table below a heading of a page, without its head.
func tableRows(tr *tree, page, heading string) (rows [][]string) {
	for _, text := range tr.texts {
		if text.path != page {
			continue
		}
		_, section, _ := strings.Cut(text.content, "\n"+heading+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for line := range strings.Lines(section) {
			if strings.HasPrefix(line, "|") {
				rows = append(rows, cellsOf(line))
			}
		}
	}
	return rows[min(2, len(rows)):]
}

func budgetRules() []rule {
	page := func(rows string) string {
		return "# The house\n\n" + namesHeading + "\n\n| package | names | why |\n|---|---|---|\n" + rows + "\n## Next\n| x | y | z |\n"
	}
	names := func(pkg, count string) string { return "# " + module + pkg + ": " + count + " exported names\n" }
	return []rule{{
		name: "many exported names have reasons", check: manyNamesHaveReasons,
		breach: map[string]string{
			"docs/ARCHITECTURE.md": page("| `runtime` | 64 | words |\n| `probe` | 27 | words |\n| `pleg` | 19 | words |\n| `gone` | 30 | words |\n| `status` | 36 | |\n| `runtime` | 64 | words |\n"),
			"api/runtime.txt":      names("/runtime", "64"), "api/probe.txt": names("/probe", "26"), "api/pleg.txt": names("/pleg", "19"),
			"api/status.txt": names("/status", "36"), "api/podwright.txt": names("", "26"), "api/cleanup.txt": "func New()\n",
		},
		keeps: map[string]string{
			"docs/ARCHITECTURE.md": page("| `runtime` | 64 | words |\n| `podwright` | 26 | words |\n"),
			"api/runtime.txt":      names("/runtime", "64"), "api/podwright.txt": names("", "26"), "api/pleg.txt": names("/pleg", "25"),
		},
		finds: []string{
			"probe has 26 exported names, its row says 27", "pleg has a row, but only 19", "gone has a row, but api/ has no such package", "want package, names and why",
			"runtime has two rows", "podwright has 26 exported names, and no row", "status has 36 exported names, and no row", "api/cleanup.txt does not begin",
		},
	}}
}
