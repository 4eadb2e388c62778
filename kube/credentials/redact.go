package credentials

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

const (
	// mostShown bounds how much is shown of what a plugin printed to stderr, in bytes.
	mostShown = 1 << 10
	// leastSecret is the length from which a value of the plugin's environment counts as a secret.
	leastSecret = 8
)

// secretsOf returns what must not be shown of a run: the token, the credentials in the answer, even
// an invalid one, and the environment from the configuration. known is false if the answer cannot be
// read, or is of another kind: then it may contain any credentials, which stderr may repeat.
func secretsOf(p *provider, token string, stdout []byte) (out []string, known bool) {
	add := func(s string, least int) {
		if len(s) >= least {
			out = append(out, s)
		}
	}
	add(token, 1)
	if parts := strings.Split(token, "."); len(parts) == 3 {
		add(parts[2], 1) // the signature, without which the rest is useless
	}
	var answered struct {
		Kind string                                         `json:"kind"`
		Auth map[string]struct{ Username, Password string } `json:"auth"`
	}
	known = len(bytes.TrimSpace(stdout)) == 0 || json.Unmarshal(stdout, &answered) == nil && answered.Kind == responseKind
	for _, c := range answered.Auth {
		plain := []byte(c.Username + ":" + c.Password)
		add(c.Password, 1)
		add(base64.StdEncoding.EncodeToString(plain), 5)
		add(base64.RawStdEncoding.EncodeToString(plain), 5)
	}
	for _, v := range p.env {
		_, value, _ := strings.Cut(v, "=")
		add(value, leastSecret)
	}
	// Longest first: replacing a shorter secret first would leave the rest of one that contains it.
	slices.SortFunc(out, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return out, known
}

// shown is what is shown of stderr: one line, its end, without secrets. If cut, stderr was longer,
// so its end may be the beginning of a secret and is left out.
func shown(stderr []byte, cut bool, secrets []string) string {
	text := string(stderr)
	if cut && len(secrets) > 0 {
		text = text[:max(0, len(text)-len(secrets[0]))]
	}
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if len(text) > mostShown {
		text = "..." + strings.ToValidUTF8(text[len(text)-mostShown:], "")
	}
	return text
}
