package images_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/podwright/podwright/runtime/pods/internal/images"
)

// plain is what a reference to a registry is made of.
var plain = regexp.MustCompile(`^[\[\]A-Za-z0-9_./:@+-]+$`)

// FuzzReference: a name that is taken has nothing that a registry's URL or a log line would
// read as something else, and what the runtime gets is taken again and stays as it is (9.2).
func FuzzReference(f *testing.F) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for _, text := range []string{
		"nginx", "reg.io:5000/a/b:v1", "a@" + digest, "a:1@" + digest, "[::1]:5000/a", "a/../b", "../a", "a//b", "A/b", "a b", "a\nb", "/etc", "/\x00",
		"a:", "a@", ":1", "@", "a:b/c", "http://x/a", strings.Repeat("a", 256), "a?b#c", "\u202ea",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := images.Parse(text)
		if err != nil {
			if len(err.Error()) > 8*len(text)+200 {
				t.Errorf("an error of %d bytes for a name of %d", len(err.Error()), len(text))
			}
			return
		}
		if strings.HasPrefix(text, "/") { // a folder, whose name is the runtime's to judge
			if r.Text != text || strings.Contains(text, "\x00") {
				t.Errorf("%q is taken as %+v", text, r)
			}
			return
		}
		if !plain.MatchString(r.Text) || strings.Contains(r.Text, "..") || strings.Contains(r.Text, "//") || r.Tag == "" && r.Digest == "" {
			t.Errorf("%q is taken as %+v", text, r)
		}
		if again, err := images.Parse(r.Text); err != nil || again != r {
			t.Errorf("%q is taken as %+v, and then as %+v, %v", text, r, again, err)
		}
	})
}
