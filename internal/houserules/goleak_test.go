package houserules

import (
	"maps"
	"slices"
)

// testsCheckForLeaks wants every package with tests that start goroutines to verify that
// none is left: a TestMain that calls goleak.
func testsCheckForLeaks(tr *tree, report report) {
	leaksWithout(tr, goleakExempt, report)
}

func leaksWithout(tr *tree, exempt map[string]string, report report) {
	tests, verified := map[string]bool{}, map[string]bool{}
	for _, s := range tr.files {
		if !s.test || s.room() == "tools" {
			continue
		}
		tests[s.dir] = true
		for _, imported := range s.imports {
			if imported == "go.uber.org/goleak" {
				verified[s.dir] = true
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(tests)) {
		if verified[dir] || exempt[dir] != "" {
			continue
		}
		report("%s has tests but no goleak check", dir)
	}
}

// goleakExempt are packages whose tests start no goroutine, and why.
var goleakExempt = map[string]string{
	"internal/houserules": "parses files",
}
