package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A token is made once, for its owner alone, and only where the agent is to make it.
func TestTokenIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if _, err := openToken(path, false); err == nil || !strings.Contains(err.Error(), "--listen-token-file") {
		t.Errorf("a file that is missing: %v", err)
	}
	first, err := openToken(path, true)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	second, err := openToken(path, true)
	if err != nil || first != second {
		t.Errorf("the second start has another token: %v", err)
	}
	other, err := openToken(filepath.Join(t.TempDir(), "token"), true)
	if err != nil || first == other {
		t.Errorf("two agents have one token: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

// A token that others may have read, or can guess, is refused; none of it is in the error.
func TestTokenFileIsRefused(t *testing.T) {
	const good = "0123456789abcdef"
	for _, c := range []struct {
		name, text string
		mode       os.FileMode
		want       string
	}{
		{"good", good + "\n", 0o600, ""},
		{"read-only", good, 0o400, ""},
		{"open", good, 0o644, "open to other users (mode 0644)"},
		{"open to a group", good, 0o640, "chmod 600"},
		{"empty", "", 0o600, "16 to 1024"},
		{"short", good[1:], 0o600, "16 to 1024"},
		{"long", strings.Repeat("x", 2000), 0o600, "16 to 1024"},
		{"two words", good + " " + good, 0o600, "one word"},
		{"binary", good + "\x00", 0o600, "one word"},
	} {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := openToken(path, true)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), good[1:])) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := openToken(t.TempDir(), true); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("a folder: %v", err)
	}
	if os.Geteuid() == 0 {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if _, err := openToken(path, true); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
			t.Errorf("another user's: %v", err)
		}
	}
}

// A request has the token or it has not.
func TestTokenSentBy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := openToken(path, false)
	if err != nil {
		t.Fatal(err)
	}
	for header, want := range map[string]bool{
		"Bearer 0123456789abcdef":   true,
		"bearer  0123456789abcdef ": true,
		"Bearer 0123456789abcdeg":   false,
		"Bearer 0123456789abcdef0":  false,
		"Bearer 0123456789abcde":    false,
		"Basic 0123456789abcdef":    false,
		"0123456789abcdef":          false,
		"Bearer":                    false,
		"Bearer ":                   false,
		"":                          false,
	} {
		r := &http.Request{Header: http.Header{"Authorization": {header}}}
		if token.sentBy(r) != want {
			t.Errorf("%q: %v, want %v", header, !want, want)
		}
	}
}
