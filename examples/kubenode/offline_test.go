package main

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// KO8: the flags of the offline cache; keys come from a file that no other user can read, or from the systemd credential.
func TestOfflineFlags(t *testing.T) {
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	line := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("0123"), 8)) + "\n"
	dir := t.TempDir()
	good, open := filepath.Join(dir, "good"), filepath.Join(dir, "open")
	for path, mode := range map[string]os.FileMode{good: 0o600, open: 0o644} {
		if err := os.WriteFile(path, []byte(line), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		flags offlineFlags
		keys  int
		want  string
	}{
		"none":             {},
		"plain":            {flags: offlineFlags{cache: true, max: "1Gi"}},
		"sealed":           {flags: offlineFlags{cache: true, max: "1Gi", key: good, dir: "cache"}, keys: 1},
		"a key alone":      {flags: offlineFlags{key: good}, want: "for --offline-cache"},
		"a key to be read": {flags: offlineFlags{cache: true, max: "1Gi", key: open}, want: "open to other users"},
		"no size":          {flags: offlineFlags{cache: true, max: "much"}, want: "--offline-cache-max-size"},
	} {
		o, err := c.flags.options()
		if len(o.Keys) != c.keys && err == nil || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
		if err == nil && (o.Cache != c.flags.cache || o.Dir != "" && !filepath.IsAbs(o.Dir)) {
			t.Errorf("%s: %+v", name, o)
		}
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	if err := os.WriteFile(filepath.Join(dir, offlineCredential), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	f := offlineFlags{cache: true, max: "1Gi"}
	if o, err := f.options(); err != nil || len(o.Keys) != 1 {
		t.Errorf("credential: %+v, %v", o, err)
	}
}
