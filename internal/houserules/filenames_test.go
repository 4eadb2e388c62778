package houserules

import (
	"path"
	"regexp"
	"strings"
)

// vagueFileNames are words that say where code was put, not what it does.
var vagueFileNames = set(
	"base", "common", "consts", "constants", "extra", "extras", "funcs", "generic", "helper", "helpers", "impl", "interfaces", "lib", "misc", "more",
	"new", "old", "shared", "structs", "stuff", "support", "temp", "tmp", "types", "util", "utils", "various",
)

// vagueEnding are those words that say nothing at the end of a longer one either: timeutils.go.
var vagueEnding = regexp.MustCompile(`(utils?|helpers?|common|misc|stuff)$`)

// numbered is a name that continues another file.
var numbered = regexp.MustCompile(`^[a-z_]*[a-z]\d$`)

// filesAreNamedAfterTheirContent wants the name of a file, and of its folder, to say what is in it.
func filesAreNamedAfterTheirContent(tr *tree, report report) {
	folders := map[string]bool{}
	for _, s := range tr.files {
		stem := strings.TrimSuffix(strings.TrimSuffix(path.Base(s.path), ".go"), "_test")
		if vague(stem) || len(stem) == 1 || numbered.MatchString(stem) {
			report("%s: the name does not say what is in the file", s.path)
		}
		for _, folder := range strings.Split(s.dir, "/") {
			if vague(folder) && !folders[s.dir] {
				folders[s.dir] = true
				report("%s: the name does not say what is in the folder", s.dir)
			}
		}
	}
}

// vague reports whether a name, or one of its words, says nothing.
func vague(name string) bool {
	for _, word := range strings.Split(name, "_") {
		if vagueFileNames[word] || vagueEnding.MatchString(word) {
			return true
		}
	}
	return false
}

func fileNameRules() []rule {
	const empty = "package p\n"
	return []rule{{
		name: "files are named after what is in them", check: filesAreNamedAfterTheirContent,
		breach: map[string]string{
			"pleg/utils.go": empty, "pleg/helpers_test.go": empty, "pleg/timeutil.go": empty, "pleg/types_linux.go": empty, "pleg/t.go": empty, "pleg/relist2.go": empty,
			"probe/common/a1.go": empty, "probe/common/b.go": empty,
		},
		keeps: map[string]string{
			"pleg/relist.go": empty, "pleg/process_other.go": empty, "pleg/sha256.go": empty, "pleg/sharednode_test.go": empty, "tools/api/main.go": empty,
		},
		finds: []string{
			"pleg/utils.go", "pleg/helpers_test.go", "pleg/timeutil.go", "pleg/types_linux.go", "pleg/t.go", "pleg/relist2.go", "probe/common/a1.go", "probe/common/b.go",
			"probe/common: the name does not say what is in the folder",
		},
	}}
}
