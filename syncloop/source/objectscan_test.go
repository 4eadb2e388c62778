package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// settingsNamed returns the config map settings under another name.
func settingsNamed(name string) string {
	return strings.Replace(settings, "name: settings", "name: "+name, 1)
}

// pretendSize lets a known file count as if it were of that size, until it changes.
func (f *objectFolder) pretendSize(name string, size int64) {
	f.t.Helper()
	old := time.Now().Add(-time.Hour) // so that looks trust its timestamps, and do not read it again
	must(f.t, os.Chtimes(filepath.Join(f.path, name), old, old))
	f.update()
	f.files[name].size = size
}

// update reads only the files that have changed.
func (f *objectFolder) update() {
	f.t.Helper()
	if _, _, err := f.look(); err != nil {
		f.t.Error(err)
	}
}

// has reports whether the folder has a config map.
func (f *objectFolder) has(name string) bool {
	_, err := f.GetConfigMap(f.t.Context(), "default", name)
	return err == nil
}

// TestBrokenObjectFileStaysNamed is OB6: that another file defines an object of a broken file too
// does not hide that the broken file may define more.
func TestBrokenObjectFileStaysNamed(t *testing.T) {
	f := newObjectFolder(t, ObjectDirOptions{})
	f.write("a.yaml", settings)
	f.write("b.yaml", strings.Replace(settings, "fast", "slow", 1))
	f.relook()
	f.write("a.yaml", settings+"---\nkind: ConfigMap\nmetadata: {name: new\n")
	f.relook()
	if _, err := f.GetConfigMap(t.Context(), "default", "new"); apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "a.yaml cannot be used and may define it") {
		t.Error(err)
	}
	if p := f.Problems(); len(p) != 1 || !errors.Is(p[0].Err, errNoObject) || !errors.Is(p[0].Err, errTwice) || f.mode() != "slow" {
		t.Errorf("%s, %v", f.mode(), p)
	}
	if p := f.Unreadable(); len(p) != 1 || !strings.Contains(p[0].Advice, "fix the file") || strings.Contains(p[0].Cause, "\n") {
		t.Errorf("%v", p)
	}

	// A file with warnings only is used: what it does not define is not found.
	f.write("a.yaml", settings+secretText+": 1\n")
	f.relook()
	if f.has("new") || strings.Contains(f.text(), secretText) {
		t.Error(f.text())
	}
	if _, err := f.GetConfigMap(t.Context(), "default", "new"); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if p := f.Unreadable(); len(p) != 1 || !errors.Is(p[0], errTwice) || !strings.Contains(p[0].Advice, "one file") {
		t.Errorf("an unknown field hides the second definition: %v", p)
	}
}

// TestObjectProblemsKeepTheirText: an unchanged folder has the same problems at each look, so it logs
// each once. A problem names the file that the object is taken from, and does not grow without bound.
func TestObjectProblemsKeepTheirText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs []string
		f := newObjectFolder(t, ObjectDirOptions{Logger: funcr.New(func(_, args string) { logs = append(logs, args) }, funcr.Options{})})
		var all strings.Builder
		for i := range 30 {
			all.WriteString("---\n" + settingsNamed(fmt.Sprintf("c%02d", i)))
		}
		f.write("a.yaml", all.String())
		f.write("b.yaml", settingsNamed("c07")+"---\n"+settingsNamed("c03"))
		f.write("c.yaml", all.String())
		start := time.Now()
		for range 40 {
			f.relook()
			<-time.After(time.Second)
		}
		if len(logs) != 2 {
			t.Errorf("%d log lines, want one for each of a.yaml and b.yaml: %.300q", len(logs), logs)
		}
		for _, p := range f.Problems() {
			if !p.Since.Equal(start) {
				t.Errorf("%s: since %v, want %v", p.Path, p.Since, start)
			}
		}
		const twice = "another definition of the same object: "
		var c00to09 []string
		for i := range 10 {
			c00to09 = append(c00to09, fmt.Sprintf("ConfigMap default/c%02d is taken from %s/c.yaml", i, f.path))
		}
		want := "a.yaml: " + twice + strings.Join(c00to09, ", ") + " and 20 more; b.yaml: " + twice + c00to09[3] + ", " + c00to09[7]
		if got := f.text(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}

// TestObjectFolderBehindALink is OB5: a link whose target is gone, such as a volume that is not
// mounted, is not a folder without objects.
func TestObjectFolderBehindALink(t *testing.T) {
	dir := t.TempDir()
	volume, away, link := filepath.Join(dir, "volume"), filepath.Join(dir, "away"), filepath.Join(dir, "link")
	must(t, os.Symlink("volume", link))
	d, err := NewObjectDir(link, ObjectDirOptions{}) // it may be mounted later
	must(t, err)
	f := &objectFolder{t, d}
	if _, err := f.GetConfigMap(t.Context(), "default", "settings"); apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "link to nothing") {
		t.Errorf("not mounted at the start: %v", err)
	}
	must(t, os.Mkdir(volume, 0o700))
	f.write("a.yaml", settings)
	f.relook()
	if f.mode() != "fast" || len(f.Problems()) > 0 {
		t.Fatal(f.mode(), f.text())
	}
	must(t, os.Rename(volume, away))
	if different, _, err := f.look(); err == nil || len(different) > 0 || f.mode() != "fast" {
		t.Errorf("unmounted: %v, changed %v, %s", err, different, f.mode())
	}
	if p := f.Unreadable(); len(p) != 1 || !strings.Contains(p[0].Cause, "link to nothing") || !strings.Contains(p[0].Advice, "all objects stay") {
		t.Errorf("%v", p)
	}
	must(t, os.Rename(away, volume))
	f.relook()
	if f.mode() != "fast" || len(f.Problems()) > 0 {
		t.Error(f.mode(), f.text())
	}
	must(t, os.Remove(link))
	f.relook()
	if _, err := f.GetConfigMap(t.Context(), "default", "settings"); !apierrors.IsNotFound(err) || len(f.Problems()) > 0 {
		t.Errorf("no link, no folder (SRC3): %v, %s", err, f.text())
	}
}

// TestKnownObjectsComeFirst is OB3: when a folder is full, neither a new file nor one that grows
// takes away the objects of another.
func TestKnownObjectsComeFirst(t *testing.T) {
	f := newObjectFolder(t, ObjectDirOptions{})
	large := func(name string) string { return settingsNamed(name) + "# " + strings.Repeat("x", 1000) + "\n" }
	f.write("m.yaml", settingsNamed("old"))
	f.write("z.yaml", settings)
	f.update()
	f.pretendSize("z.yaml", maxObjectsSize-500)

	f.write("a.yaml", large("a"))
	f.update()
	const noRoom = "a.yaml: manifest is too large: all files together have more than 64 MiB"
	if f.mode() != "fast" || !f.has("old") || f.text() != noRoom {
		t.Errorf("a new file: %s, %s", f.mode(), f.text())
	}
	if p := f.Unreadable(); len(p) != 1 || !strings.Contains(p[0].Advice, "make files smaller or remove some") {
		t.Errorf("%v", p)
	}
	if _, err := f.GetConfigMap(t.Context(), "default", "a"); apierrors.IsNotFound(err) || !errors.Is(err, ErrTooLarge) {
		t.Errorf("an object without room: %v", err)
	}
	f.write("b.yaml", settingsNamed("b"))
	f.update()
	if !f.has("b") || f.text() != noRoom {
		t.Errorf("a smaller file has room: %s", f.text())
	}

	f.write("m.yaml", large("new"))
	f.update()
	if f.mode() != "fast" || !f.has("old") || f.has("new") || !strings.Contains(f.text(), "m.yaml: manifest is too large") {
		t.Errorf("a known file that grows keeps its last good version: %s, %s", f.mode(), f.text())
	}

	// One look sees all that fits, whatever the order of the names.
	f.write("z.yaml", settings)
	f.update()
	if f.mode() != "fast" || !f.has("a") || !f.has("b") || !f.has("new") || f.has("old") || len(f.Problems()) > 0 {
		t.Errorf("there is room again: %s", f.text())
	}
	f.pretendSize("z.yaml", maxObjectsSize-f.files["a.yaml"].size-f.files["b.yaml"].size-f.files["m.yaml"].size)
	f.write("c.yaml", settingsNamed("c"))
	f.write("b.yaml", large("b"))
	must(t, os.Remove(filepath.Join(f.path, "z.yaml")))
	f.update()
	if !f.has("a") || !f.has("b") || !f.has("c") || len(f.Problems()) > 0 {
		t.Errorf("a removed file makes room: %s", f.text())
	}
}
