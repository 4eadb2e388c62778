package privatedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// RD1: who may own a folder or a link, and who may write it.
func TestCheckPlace(t *testing.T) {
	const agent, other = 1000, 1001
	for _, c := range []struct {
		name string
		last bool
		p    place
		want string // in the error; "" means safe
	}{
		{"its own", true, place{owner: agent, mode: 0o750}, ""},
		{"root's, above", false, place{owner: 0, mode: 0o755}, ""},
		{"root's, last", true, place{owner: 0, mode: 0o755}, "belongs to user 0"},
		{"another's", true, place{owner: other, mode: 0o700}, "belongs to user 1001"},
		{"another's, above", false, place{owner: other, mode: 0o755}, "belongs to user 1001"},
		{"another's, above, sticky", false, place{owner: other, mode: 0o777 | fs.ModeSticky}, "belongs to user 1001"},
		{"open to all", true, place{owner: agent, mode: 0o757}, "mode 0757"},
		{"open to its group", true, place{owner: agent, mode: 0o770}, "chmod go-w /a"},
		{"open, above", false, place{owner: 0, mode: 0o777}, "mode 0777"},
		{"sticky, above", false, place{owner: 0, mode: 0o777 | fs.ModeSticky}, ""},
		{"sticky, last", true, place{owner: agent, mode: 0o777 | fs.ModeSticky}, "choose a folder in it"},
		{"open behind a closed one", true, place{owner: agent, mode: 0o777, sealed: true}, ""},
		{"another's behind a closed one", true, place{owner: other, mode: 0o700, sealed: true}, "belongs to user 1001"},
		{"a link", false, place{owner: agent, mode: 0o777 | fs.ModeSymlink, link: "x"}, ""},
		{"another's link", false, place{owner: other, mode: 0o777 | fs.ModeSymlink, link: "x"}, "belongs to user 1001"},
	} {
		c.p.path = "/a"
		err := c.p.check(agent, c.last)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrUnsafe)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// RD1: the whole path counts, with the links it leads through, as far as it exists.
func TestCheckWalksThePath(t *testing.T) {
	top := t.TempDir()
	folder := func(path string, mode fs.FileMode) string {
		t.Helper()
		path = filepath.Join(top, path)
		if err := errors.Join(os.MkdirAll(path, 0o750), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(target, path string) string {
		t.Helper()
		path = filepath.Join(top, path)
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.Chmod(filepath.Dir(top), 0o755); err != nil { // which MkdirTemp closes to all others
		t.Fatal(err)
	}
	folder("", 0o755)
	good := folder("good", 0o755)
	deep := folder("good/deep", 0o700)
	open := folder("open", 0o777)
	below := folder("open/below", 0o755)
	folder("closed", 0o700)
	behind := folder("closed/open", 0o777)
	for _, c := range []struct {
		path string
		safe bool
	}{
		{good, true},
		{deep, true},
		{open, false},
		{below, false},
		{behind, true},
		{filepath.Join(good, "missing", "more"), true},
		{filepath.Join(open, "missing"), false},
		{link(deep, "to-deep"), true},
		{link("good/./deep//", "relative"), true},
		{link(below, "to-below"), false},
		{link("../../good", "closed/open/up"), true},
		{link("open/..", "back"), false},
		{link("to-below", "twice"), false},
		{link("nowhere", "dangling"), true},
		{link("..", "good/above"), true},
		{link("../../../../../../../../../../..", "root"), os.Geteuid() == 0},
	} {
		if err := Check(c.path); (err == nil) != c.safe || err != nil && !errors.Is(err, ErrUnsafe) {
			t.Errorf("%s: %v, want safe: %v", c.path, err, c.safe)
		}
	}
	if err := Check(link("loop", "loop")); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a loop of links: %v", err)
	}
}
