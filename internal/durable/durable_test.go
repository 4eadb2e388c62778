package durable_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/durable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func open(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func TestWriteReplacesTheWholeFile(t *testing.T) {
	dir := t.TempDir()
	root := open(t, dir)
	for name, write := range map[string]func(*os.Root, string, []byte) error{
		"a": durable.Write, "b": durable.WriteShared,
	} {
		for _, text := range []string{"a longer text", "short", ""} {
			if err := write(root, name, []byte(text)); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
				t.Errorf("%s holds %q, %v, want %q", name, got, err, text)
			}
		}
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode of %s: %v, %v", name, info, err)
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("left: %q", got)
	}
}

func TestWriteFileMakesItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	if err := durable.WriteFile(filepath.Join(dir, "a"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info, err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"a"}) {
		t.Errorf("left: %q", got)
	}
}

func TestFailedWriteKeepsTheOldFileAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	root := open(t, dir)
	if err := os.MkdirAll(filepath.Join(dir, "a", "full"), 0o700); err != nil { // cannot be replaced by a file
		t.Fatal(err)
	}
	if err := durable.Write(root, "a", []byte("1")); err == nil {
		t.Error("no error")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"a"}) {
		t.Errorf("left: %q", got)
	}
	if err := durable.Write(root, "../b", nil); err == nil {
		t.Error("left the folder")
	}
}

func TestWriteTakesOverWhatACrashLeft(t *testing.T) {
	dir := t.TempDir()
	root := open(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "a"+durable.Suffix), []byte("half of a longer te"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.Write(root, "a", []byte("text")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestSharedWriteLeavesTheFilesOfOtherWriters(t *testing.T) {
	dir := t.TempDir()
	root := open(t, dir)
	unfinished := filepath.Join(dir, "a.0"+durable.Suffix)
	if err := os.WriteFile(unfinished, []byte("another wri"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteShared(root, "a", []byte("text")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{filepath.Join(dir, "a"): "text", unfinished: "another wri"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", path, got, err)
		}
	}
	if err := durable.WriteShared(root, "missing/a", nil); err == nil {
		t.Error("no error")
	}
}

func TestRemoveOfAMissingFileSucceeds(t *testing.T) {
	dir := t.TempDir()
	root := open(t, dir)
	if err := errors.Join(durable.Write(root, "a", nil), durable.Remove(root, "a"), durable.Remove(root, "a")); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); got != nil {
		t.Errorf("left: %q", got)
	}
}

func TestSweepRemovesOnlyTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	root := open(t, dir)
	for _, name := range []string{"a", "a.tmp", "b.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "c.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.Sweep(root); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"a", "c.tmp"}) {
		t.Errorf("left: %q", got)
	}
}

// TestNoSpace: a full disk and an exhausted quota are the same, wrapped or not; others are not.
func TestNoSpace(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.ENOSPC: true, &fs.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT}: true, syscall.EIO: false, nil: false,
	} {
		if durable.NoSpace(err) != want {
			t.Errorf("%v: %t", err, !want)
		}
	}
}

// TestReadRefusesWhatIsNoSmallFile: what is too large, or would make the caller wait, is an error, and not cut.
func TestReadRefusesWhatIsNoSmallFile(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"full": "12345678", "large": "123456789"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, want := range map[string]string{
		"full": "12345678 <nil>", "large": dir + "/large: larger than 8 bytes", "pipe": dir + "/pipe: not a regular file", ".": dir + ": not a regular file",
	} {
		text, err := durable.ReadFile(filepath.Join(dir, name), 8)
		below, errBelow := durable.Read(root, name, 8)
		for _, got := range []string{fmt.Sprint(string(text), " ", err), fmt.Sprint(string(below), " ", errBelow)} {
			if strings.TrimSpace(got) != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{os.DevNull, link} {
		if text, err := durable.ReadFile(name, 8); err != nil || len(text) != 0 {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if _, err := durable.ReadFile(filepath.Join(dir, "none"), 8); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
