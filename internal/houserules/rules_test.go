package houserules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// report is called for each breach of a rule.
type report func(format string, args ...any)

// rule is one house rule.
type rule struct {
	name  string
	check func(tr *tree, report report)
	// breach are files by path that break the rule; keeps are files that do not.
	breach, keeps map[string]string
	// finds are parts of the reports on the breach, one for each.
	finds []string
}

// TestHouseRules checks the repository.
func TestHouseRules(t *testing.T) {
	tr := load(t)
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			r.check(tr, t.Errorf)
		})
	}
}

// TestEveryRuleNoticesItsBreach checks the rules: each reports what breaks it and
// nothing else.
func TestEveryRuleNoticesItsBreach(t *testing.T) {
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			if len(r.breach) == 0 || len(r.finds) == 0 {
				t.Fatal("the rule has no breach")
			}
			found := reports(r, loadFiles(t, r.breach))
			if len(found) != len(r.finds) {
				t.Errorf("reports %q, want %q", found, r.finds)
			}
			for _, want := range r.finds {
				if !strings.Contains(strings.Join(found, "\n"), want) {
					t.Errorf("reports %q, none has %q", found, want)
				}
			}
			if found := reports(r, loadFiles(t, r.keeps)); len(found) > 0 {
				t.Errorf("reports %q on files that keep the rule", found)
			}
		})
	}
}

func reports(r rule, tr *tree) []string {
	var out []string
	r.check(tr, func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) })
	return out
}

// TestTablesNameWhatExists: an exception for something that is gone hides the next
// breach of that name.
func TestTablesNameWhatExists(t *testing.T) {
	dirs, interfaceNames, exported := map[string]bool{}, map[string]bool{}, map[string]bool{}
	tr := load(t)
	for _, s := range tr.files {
		dirs[s.dir] = true
		for _, e := range exportsOf(s) {
			exported[s.dir+"."+e.name] = true
		}
		for name := range interfaces(s) {
			interfaceNames[s.dir+"."+name] = true
		}
	}
	check := func(table, name string, exists bool) {
		if !exists {
			t.Errorf("%s names %s, which does not exist", table, name)
		}
	}
	for name := range randomOwners {
		check("randomOwners", name, makesRandomSource(tr, name))
	}
	for name := range rooms {
		check("rooms", name, dirs[name])
	}
	for _, name := range slices.Concat(withoutCRI, criRooms) {
		check("withoutCRI and criRooms", name, dirs[name])
	}
	for name := range pure {
		check("pure", name, dirs[name])
	}
	for name := range exportExempt {
		check("exportExempt", name, exported[name])
	}
	for name := range interfaceExempt {
		check("interfaceExempt", name, interfaceNames[name])
	}
}

// TestExemptionsAreNeeded: an exemption that no breach needs any more permits the next one.
func TestExemptionsAreNeeded(t *testing.T) {
	tr := load(t)
	for table, rule := range map[string]struct {
		exempt map[string]string
		check  func(tr *tree, exempt map[string]string, report report)
	}{
		"exportExempt":    {exportExempt, exportsWithout},
		"goleakExempt":    {goleakExempt, leaksWithout},
		"timeoutOwners":   {timeoutOwners, timeoutsWithout},
		"realClockOwners": {realClockOwners, realClockWithout},
		"renameOwners":    {renameOwners, renamesWithout},
	} {
		for name := range rule.exempt {
			others := maps.Clone(rule.exempt)
			delete(others, name)
			breaches := 0
			rule.check(tr, others, func(string, ...any) { breaches++ })
			if breaches == 0 {
				t.Errorf("%s names %s, which needs no exemption", table, name)
			}
		}
	}
}
