package crilog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, dir, name string) *Writer {
	t.Helper()
	w, err := Open(dir, name, clocktesting.NewFakePassiveClock(time.Unix(1e9, 5)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func content(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const stamp = "2001-09-09T01:46:40.000000005Z "

// spec/runtime.md 18.3: time, stream, tag, text; partial when a line is too long
// or has no end.
func TestEntriesFollowTheCRIFormat(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	for _, c := range []struct {
		name   string
		writes []string
		want   string
	}{
		{"18.3 a line", []string{"hello\n"}, stamp + "stdout F hello\n"},
		{"18.3 an empty line", []string{"\n"}, stamp + "stdout F \n"},
		{"18.3 lines in one write", []string{"a\nb\n"}, stamp + "stdout F a\n" + stamp + "stdout F b\n"},
		{"18.3 a line in two writes", []string{"a", "b\n"}, stamp + "stdout F ab\n"},
		{"18.3 no end", []string{"a\nb"}, stamp + "stdout F a\n" + stamp + "stdout P b\n"},
		{"18.3 longest line", []string{long + "\n"}, stamp + "stdout F " + long + "\n"},
		{"18.3 too long", []string{long + "y\n"}, stamp + "stdout P " + long + "\n" + stamp + "stdout F y\n"},
		{"18.3 too long in pieces", []string{"y" + long[1:], "z\n"}, stamp + "stdout P y" + long[1:] + "\n" + stamp + "stdout F z\n"},
		{"18.3 nothing", []string{""}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			w := open(t, dir, "a/b/0.log")
			s := w.Stream("stdout")
			for _, text := range c.writes {
				if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
					t.Fatalf("write: %d, %v", n, err)
				}
			}
			for range 2 { // the second has nothing to do
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if got := content(t, dir+"/a/b/0.log"); got != c.want {
				t.Errorf("got %.200q, want %.200q", got, c.want)
			}
		})
	}
}

// However a stream is cut into writes, the entries join to the same text.
func TestWritesJoin(t *testing.T) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		name := fmt.Sprintf("%d.log", run)
		w := open(t, dir, name)
		s := w.Stream("stderr")
		var all strings.Builder
		for _, piece := range rapid.SliceOf(rapid.OneOf(
			rapid.StringMatching(`[ab\n]{0,40}`), rapid.Just(strings.Repeat("c", MaxLine-1)))).Draw(rt, "pieces") {
			all.WriteString(piece)
			if _, err := s.Write([]byte(piece)); err != nil {
				rt.Fatal(err)
			}
		}
		if err := s.Flush(); err != nil {
			rt.Fatal(err)
		}
		var joined strings.Builder
		for line := range strings.Lines(content(t, filepath.Join(dir, name))) {
			fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
			if len(fields) != 4 || fields[1] != "stderr" || len(fields[3]) > MaxLine {
				rt.Fatalf("entry %.100q", line)
			}
			joined.WriteString(fields[3])
			if fields[2] == "F" {
				joined.WriteByte('\n')
			}
		}
		if joined.String() != all.String() {
			rt.Fatalf("joined %.200q, want %.200q", joined.String(), all.String())
		}
	})
}

// 18.4: after a rename, entries go to the old file until Reopen, then to a new one.
func TestEntriesGoToTheOldFileUntilReopen(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, "0.log")
	s := w.Stream("stdout")
	write := func(text string) {
		t.Helper()
		if _, err := s.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	if err := os.Rename(dir+"/0.log", dir+"/old.log"); err != nil {
		t.Fatal(err)
	}
	write("two\nthr")
	if err := w.Reopen(); err != nil {
		t.Fatal(err)
	}
	write("ee\n")
	if got, want := content(t, dir+"/old.log"), stamp+"stdout F one\n"+stamp+"stdout F two\n"; got != want {
		t.Errorf("old file %q, want %q", got, want)
	}
	if got, want := content(t, dir+"/0.log"), stamp+"stdout F three\n"; got != want {
		t.Errorf("new file %q, want %q", got, want)
	}
	if info, err := os.Stat(dir + "/0.log"); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("mode of the log file: %v, %v", info.Mode(), err)
	}
}

// A failed Reopen keeps the old file, and makes none.
func TestReopenFails(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, "sub/0.log")
	if err := os.Rename(dir+"/sub", dir+"/moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), dir+"/sub"); err != nil {
		t.Fatal(err)
	}
	if err := w.Reopen(); err == nil {
		t.Fatal("reopened through a link")
	}
	if _, err := w.Stream("stdout").Write([]byte("x\n")); err != nil {
		t.Fatal(err)
	}
	if got := content(t, dir+"/moved/0.log"); got != stamp+"stdout F x\n" {
		t.Errorf("old file %q", got)
	}
}

// An entry that was cut off, by a full disk or the end of the program that wrote it, takes no later entry with it
// (spec/runtime.md 18.3).
func TestTornEntryTakesNoOther(t *testing.T) {
	for name, torn := range map[string]string{"within the text": stamp + "stdout F to", "within the time": stamp[:10]} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(dir+"/0.log", []byte(stamp+"stdout F one\n"+torn), 0o600); err != nil {
				t.Fatal(err)
			}
			w := open(t, dir, "0.log")
			for _, line := range []string{"two\n", "three\n"} {
				if _, err := w.Stream("stdout").Write([]byte(line)); err != nil {
					t.Fatal(err)
				}
			}
			want := stamp + "stdout F one\n" + torn + "\n" + stamp + "stdout F two\n" + stamp + "stdout F three\n"
			if got := content(t, dir+"/0.log"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// The name cannot leave the folder, not even through links.
func TestOpenStaysInside(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside+"/x", dir+"/file"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../x", "link/x", "file", outside + "/x", "a/../../x"} {
		if w, err := Open(dir, name, clocktesting.NewFakePassiveClock(time.Time{})); err == nil {
			_ = w.Close()
			t.Errorf("%s was opened", name)
		}
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) > 0 {
		t.Errorf("outside: %v, %v", entries, err)
	}
}

func TestWriteAfterCloseFails(t *testing.T) {
	w := open(t, t.TempDir(), "0.log")
	for range 2 {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := w.Stream("stdout").Write([]byte("x\n")); n != 2 || !errors.Is(err, fs.ErrClosed) {
		t.Errorf("write: %d, %v", n, err)
	}
	if err := w.Reopen(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("reopen: %v", err)
	}
}

func BenchmarkWrite(b *testing.B) {
	s := open(b, b.TempDir(), "0.log").Stream("stdout")
	line := []byte(strings.Repeat("x", 100) + "\n")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Write(line); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleWriter() {
	dir, err := os.MkdirTemp("", "log")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	w, err := Open(dir, "0.log", clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()
	stdout, stderr := w.Stream("stdout"), w.Stream("stderr")
	fmt.Fprint(stdout, "hel")
	fmt.Fprint(stderr, "oops\n")
	fmt.Fprint(stdout, "lo\nbye")
	_ = stdout.Flush()
	data, _ := os.ReadFile(filepath.Join(dir, "0.log"))
	fmt.Print(string(data))
	// Output:
	// 1970-01-01T00:00:00.000000000Z stderr F oops
	// 1970-01-01T00:00:00.000000000Z stdout F hello
	// 1970-01-01T00:00:00.000000000Z stdout P bye
}
