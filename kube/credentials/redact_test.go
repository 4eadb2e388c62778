package credentials

import (
	"errors"
	"strings"
	"testing"
)

// KG4: a secret is hidden as a whole, also at the edges of what is read and of what is shown.
func TestShownHidesWholeSecrets(t *testing.T) {
	const token = "header.payload.signature"
	p := &provider{env: []string{"A=short", "B=long-enough"}}
	const answer = `{"kind":"CredentialProviderResponse","auth":{"r":{"username":"u","password":"hunter2"}}}`
	secrets, _ := secretsOf(p, token, []byte(answer))
	if len(secrets) != 6 {
		t.Errorf("secrets %q", secrets)
	}
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

// KG4: what a plugin prints to stderr is shown only if the credentials in its answer are known: one that is cut, or that is
// something else, may have any.
func TestStderrIsShownIfTheAnswerIsKnown(t *testing.T) {
	const answer = `{"kind":"CredentialProviderResponse","auth":{"r":{"username":"u","password":"hunter2"}}}`
	for text, want := range map[string]string{
		"":              "exit status 1; it said: got hunter2 for u",
		" \n":           "exit status 1; it said: got hunter2 for u",
		answer:          "exit status 1; it said: got [redacted] for u",
		answer[:20]:     "not shown",
		answer[:60]:     "not shown",
		answer + answer: "not shown",
		"hunter2":       "not shown",
		strings.Replace(answer, `"hunter2"`, `["hunter2"]`, 1): "not shown",
		`{"Username":"u","Secret":"hunter2"}`:                  "not shown",
	} {
		err := told(errors.New("exit status 1"), output{stdout: []byte(text), stderr: []byte("got hunter2 for u")}, &provider{}, "")
		if !strings.Contains(err.Error(), want) || strings.TrimSpace(text) != "" && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := told(errors.New("exit status 1"), output{stdout: []byte("{")}, &provider{}, ""); err.Error() != "exit status 1" {
		t.Errorf("without stderr: %v", err)
	}
}
