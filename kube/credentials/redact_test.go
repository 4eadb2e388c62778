package credentials

import (
	"strings"
	"testing"
)

// KG4: a secret is hidden as a whole, also at the edges of what is read and of what is shown.
func TestShownHidesWholeSecrets(t *testing.T) {
	const token = "header.payload.signature"
	p := &provider{env: []string{"A=short", "B=long-enough"}}
	secrets := secretsOf(p, token, []byte(`{"auth":{"r":{"username":"u","password":"hunter2"}},"cut`))
	if len(secrets) != 3 { // no answer, no credentials
		t.Errorf("secrets %q", secrets)
	}
	secrets = secretsOf(p, token, []byte(`{"auth":{"r":{"username":"u","password":"hunter2"}}}`))
	for name, c := range map[string]struct {
		text string
		cut  bool
		want string
	}{
		"none":                    {" no\trole\n\x1b[31m ", false, "no role [31m"},
		"token":                   {"with " + token + "!", false, "with [redacted]!"},
		"signature":               {"with signature", false, "with [redacted]"},
		"values":                  {"short long-enough", false, "short [redacted]"},
		"no text":                 {"\xff\x00", false, "?"},
		"cut":                     {strings.Repeat("x", 100) + token[:20], true, strings.Repeat("x", 96)},
		"cut at all":              {token[:20], true, ""},
		"long":                    {strings.Repeat("é", 1000), false, "..." + strings.Repeat("é", 512)},
		"long secret at the edge": {token + strings.Repeat("x", mostShown-4), false, "...ted]" + strings.Repeat("x", mostShown-4)},
	} {
		if got := shown([]byte(c.text), c.cut, secrets); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
