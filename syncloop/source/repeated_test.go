package source

import (
	"errors"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
)

// TestMergeIsNoRepetition is SRC5: a key beside a merge replaces the merged one, and is no problem. One whose own
// value does not count is.
func TestMergeIsNoRepetition(t *testing.T) {
	const base = "a: &a {x: 1, w: {z: 1}}\nb: &b {x: 2, 7: 8}\n"
	for text, want := range map[string]string{
		base + "c: {<<: *a, x: 3}":                                  "",
		base + "c:\n  <<: *a\n  w: {z: 2}\n  args: [\"cat <<EOF\"]": "",
		base + "c: {<<: [*a, *b]}":                                  "",
		base + "c: {<<: *a, <<: *b, x: 1}":                          "",
		base + "c: {<<: *b, 7: 9}":                                  "",
		base + "c: [{<<: *a}, {<<: *a, x: 4}]":                      "",
		base + "c: {<<: *a, x: 3, x: 3}":                            `line 3: key "x" already set in map|line 3: key "x" already set in map`,
		base + "c: {<<: *a, x: 3, q: {r: 1, r: 2}}":                 `line 3: key "r" already set in map`,
		base + "c: {x: 3, <<: *a}":                                  `line 1: key "x" already set in map`,
		base + "c: {w: {z: 3}, <<: *a}":                             `line 1: key "w" already set in map`,
		base + "c: {<<: *a, x: 3}\nd: {e: 1, e: 1}":                 `line 4: key "e" already set in map`,
		"a: &a {x: 1, x: 1}\nb: {<<: *a}":                           `line 1: key "x" already set in map|line 1: key "x" already set in map`,
		"a: 1\na: 2":                                                `line 2: key "a" already set in map`,
		"- {a: 1, a: 1}":                                            `line 1: key "a" already set in map`,
	} {
		parsed, err := parse([]byte(text), 0, maxManifestSize)
		must(t, err)
		got := ""
		if wrong := (*yaml.TypeError)(nil); errors.As(parsed.repeated, &wrong) {
			got = strings.Join(wrong.Errors, "|")
		}
		diff(t, text, want, got)
	}
	d, err := newDecoder("n1", false)
	must(t, err)
	manifest := manifestOf("web", "app:1") + "    resources: &r {limits: {cpu: 1}, requests: {cpu: 1}}\n  - {name: other, image: \"app:1\", resources: {<<: *r, requests: {cpu: 500m}}}\n"
	pod, err := d.decode([]byte(manifest), "file:/x")
	must(t, err)
	if r := pod.Spec.Containers[1].Resources; r.Requests.Cpu().MilliValue() != 500 || r.Limits.Cpu().Value() != 1 {
		t.Errorf("resources %v", r)
	}
}
