package source

import (
	"errors"
	"strings"
	"testing"
)

// TestMisfitsInWords: what is wrong with a manifest is said in its own words, whatever the
// decoder calls it.
func TestMisfitsInWords(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\n"
	d, err := newDecoder("n1", false)
	must(t, err)
	for manifest, want := range map[string]string{
		"- apiVersion: v1\n  kind: Pod\n": "want fields, such as kind: Pod, got a list",
		"some text\n":                     "want fields, such as kind: Pod, got text",
		"7\n":                             "want fields, such as kind: Pod, got a number",
		"1.5\n":                           "want fields, such as kind: Pod, got a number",
		"true\n":                          "want fields, such as kind: Pod, got true or false",
		"null\n":                          "want fields, such as kind: Pod, got nothing",
		"apiVersion: 1\nkind: Pod\n":      "apiVersion: want text, got a number",
		"apiVersion: v1\nkind: [Pod]\n":   "kind: want text, got a list",
		"apiVersion: v1\nkind: {}\n":      "kind: want text, got a map",

		pod + "metadata: {name: 1}\n":                                       "metadata.name: want text, got a number; put it in quotes",
		pod + "metadata: {labels: {a: true}}\n":                             "metadata.labels: want text, got true or false; put it in quotes",
		pod + "spec: text\n":                                                "spec: want a map, got text",
		pod + "spec: {hostPID: 'yes'}\n":                                    "spec.hostPID: want true or false, got text",
		pod + "spec: {containers: {}}\n":                                    "spec.containers: want a list, got a map",
		pod + "spec: {priority: 99999999999}\n":                             "spec.priority: the number 99999999999 is out of range",
		pod + "spec: {priority: 1.5}\n":                                     "spec.priority: want a whole number, got 1.5",
		pod + "spec: {containers: [{livenessProbe: {httpGet: {host: 1}}}]}": "spec.containers.livenessProbe.httpGet.host: want text, got a number; put it in quotes",
	} {
		decoded, err := d.decode([]byte(manifest), "file:/x")
		if decoded != nil || !errors.Is(err, ErrMalformed) || !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("%q: %v, want %q", manifest, err, want)
		}
	}
}
