package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podwright/podwright/examples/internal/secretfile"
	"github.com/podwright/podwright/runtime/process"
	"github.com/podwright/podwright/status/checkpoint"
)

// keyLine returns a key as it is in a file, another one for each number.
func keyLine(n byte) string {
	secret := sha256.Sum256([]byte{n})
	return base64.StdEncoding.EncodeToString(secret[:]) + "\n"
}

// keyFile writes a file of keys.
func keyFile(t *testing.T, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // the umask has cut it
		t.Fatal(err)
	}
	return path
}

// TestRecordKeyFile (CK12): which files of keys are taken. No error quotes a key.
func TestRecordKeyFile(t *testing.T) {
	for _, c := range []struct {
		name, text string
		mode       os.FileMode
		keys       int
		err        string
	}{
		{"one", keyLine(1), 0o600, 1, ""},
		{"two, newest first, with a comment", "# of May\n" + keyLine(2) + "\n# of April\n" + keyLine(1), 0o400, 2, ""},
		{"others may read it", keyLine(1), 0o604, 0, "open to other users (mode 0604)"},
		{"its group may read it", keyLine(1), 0o640, 0, "open to other users (mode 0640)"},
		{"none", "# later\n", 0o600, 0, "has no key"},
		{"no base64", "# x\n" + keyLine(1)[1:], 0o600, 0, ":2 is no base64"},
		{"too short", base64.StdEncoding.EncodeToString([]byte("short")), 0o600, 0, ":1: the key has 5 bytes"},
		{"twice", keyLine(1) + keyLine(1), 0o600, 0, ":2 is there twice"},
		{"no list of keys", strings.Repeat("#\n", secretfile.MaxKeys), 0o600, 0, "which is no list of keys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("CREDENTIALS_DIRECTORY", "")
			o := keyOptions{file: keyFile(t, t.TempDir(), "keys", c.text, c.mode)}
			err := o.complete()
			if len(o.keys) != c.keys || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%d keys, %v", len(o.keys), err)
			}
			if err != nil && strings.Contains(err.Error(), keyLine(1)[1:20]) {
				t.Errorf("the error quotes a key: %v", err)
			}
			if c.keys == 2 && o.keys[0].ID() == checkpointID(t, 1) {
				t.Error("the newest key is not the first")
			}
		})
	}
	for _, path := range []string{t.TempDir(), "/dev/null", "/nonexistent"} {
		if o := (keyOptions{file: path}); o.complete() == nil {
			t.Errorf("%s is taken", path)
		}
	}
}

// TestRecordKeyCredential (CK12): without the flag the credential of systemd counts, which an access control list
// may show as readable for its group; the flag overrides it.
func TestRecordKeyCredential(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	var none keyOptions
	if err := none.complete(); err != nil || len(none.keys) != 0 {
		t.Errorf("no credential: %v, %v", none.keys, err)
	}
	path := keyFile(t, dir, keyCredential, keyLine(1), 0o440)
	var o keyOptions
	if err := o.complete(); err != nil || len(o.keys) != 1 || o.keys[0].ID() != checkpointID(t, 1) {
		t.Errorf("%v, %v", o.keys, err)
	}
	other := keyOptions{file: keyFile(t, t.TempDir(), "keys", keyLine(2), 0o600)}
	if err := other.complete(); err != nil || other.keys[0].ID() == checkpointID(t, 1) {
		t.Errorf("the flag: %v, %v", other.keys, err)
	}
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := (&keyOptions{}).complete(); err == nil {
		t.Error("a credential that everyone may read is taken")
	}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	if err := (&keyOptions{trustPlain: true}).complete(); err == nil {
		t.Error("trust without a key is taken")
	}
}

func checkpointID(t *testing.T, n byte) string {
	t.Helper()
	secret := sha256.Sum256([]byte{n})
	k, err := checkpoint.NewKey(secret[:])
	if err != nil {
		t.Fatal(err)
	}
	return k.ID()
}

// TestCheckpointCommandWithKey (CK12): sealed records are shown with their key, and named without it. Nothing is
// moved.
func TestCheckpointCommandWithKey(t *testing.T) {
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	root := t.TempDir()
	right, wrong := keyFile(t, root, "right", keyLine(1), 0o600), keyFile(t, root, "wrong", keyLine(2), 0o600)
	o := keyOptions{file: right}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	files := checkpoint.NewFiles(checkpoint.Dir(filepath.Join(root, "state", "pods")))
	if err := files.Seal(o.keys, false); err != nil {
		t.Fatal(err)
	}
	if err := files.Write(t.Context(), []*checkpoint.Record{{UID: "uid-web", Namespace: "shop", Name: "web", Finished: true}}); err != nil {
		t.Fatal(err)
	}
	if code := run([]string{"checkpoint", "list", "--root", root, "--record-key-file", root}, process.Supervisor{}, io.Discard, io.Discard); code != codeUsage {
		t.Errorf("list with a folder for a key: %d", code)
	}
	for _, c := range []struct {
		file, list string
		show       bool
	}{
		{right, "finished", true},
		{wrong, "unusable: uid-web: sealed: it is sealed with key " + checkpointID(t, 1), false},
		{"", "the keys given are: none", false},
	} {
		for range 2 {
			var stdout, stderr bytes.Buffer
			code := run([]string{"checkpoint", "list", "--root", root, "--record-key-file", c.file}, process.Supervisor{}, &stdout, &stderr)
			if code != 0 || !strings.Contains(stdout.String(), c.list) {
				t.Errorf("list with %q: %d %s%s", c.file, code, &stdout, &stderr)
			}
		}
		var stdout, stderr bytes.Buffer
		code := run([]string{"checkpoint", "show", "uid-web", "--root", root, "--record-key-file", c.file}, process.Supervisor{}, &stdout, &stderr)
		if (code == 0) != c.show || c.show && !strings.Contains(stdout.String(), "name: web") || !c.show && !strings.Contains(stderr.String(), "sealed with key") {
			t.Errorf("show with %q: %d %s%s", c.file, code, &stdout, &stderr)
		}
	}
}
