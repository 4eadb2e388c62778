package source

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// secretText is in every file below whose content must not be quoted.
const secretText = "hunter2"

const settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {mode: fast}\n"

// objectFolder is a closed folder and its objects.
type objectFolder struct {
	t *testing.T
	*ObjectDir
}

func newObjectFolder(t *testing.T, options ObjectDirOptions) *objectFolder {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects")
	must(t, os.Mkdir(path, 0o700))
	d, err := NewObjectDir(path, options)
	must(t, err)
	return &objectFolder{t, d}
}

func (f *objectFolder) write(name, text string) {
	f.t.Helper()
	must(f.t, os.WriteFile(filepath.Join(f.path, name), []byte(text), 0o600))
}

// mode returns a value of the config map "settings", or the error.
func (f *objectFolder) mode() string {
	m, err := f.GetConfigMap(f.t.Context(), "default", "settings")
	if err != nil {
		return err.Error()
	}
	return m.Data["mode"]
}

// relook reads every file again.
func (f *objectFolder) relook() {
	f.distrust("")
	_, _, _ = f.look()
}

// text returns the problems in one line.
func (f *objectFolder) text() string {
	var out []string
	for _, p := range f.Problems() {
		out = append(out, filepath.Base(p.Path)+": "+p.Err.Error())
	}
	return strings.Join(out, "; ")
}

// TestObjectFolderServesItsFiles: OB1.
func TestObjectFolderServesItsFiles(t *testing.T) {
	f := newObjectFolder(t, ObjectDirOptions{})
	f.write("a.yaml", settings+"---\n"+`apiVersion: v1
kind: Secret
metadata: {name: db, namespace: prod, uid: u1}
type: Opaque
data: {user: am9l}
stringData: {password: hunter2}
`)
	f.write("b.json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"binary"},"binaryData":{"b":"AAE="}}`)
	f.write("notes.txt", "no manifest")
	f.write(".hidden.yaml", "no manifest")
	if got := f.mode(); got != "fast" {
		t.Error(got)
	}
	s, err := f.GetSecret(t.Context(), "prod", "db")
	if err != nil || string(s.Data["user"]) != "joe" || string(s.Data["password"]) != secretText || s.Type != v1.SecretTypeOpaque || s.UID != "u1" || s.StringData != nil {
		t.Errorf("%v, err %v", s, err)
	}
	if m, err := f.GetConfigMap(t.Context(), "default", "binary"); err != nil || string(m.BinaryData["b"]) != "\x00\x01" {
		t.Errorf("%v, err %v", m, err)
	}
	for _, name := range []string{"db", "settings", "none"} {
		if _, err := f.GetSecret(t.Context(), "default", name); !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(f.Problems()) != 0 || f.Unreadable() != nil {
		t.Error(f.text())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.GetConfigMap(ctx, "default", "settings"); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
}

// TestObjectFolderMissingIsEmpty: SRC3 holds for objects.
func TestObjectFolderMissingIsEmpty(t *testing.T) {
	d, err := NewObjectDir(filepath.Join(t.TempDir(), "later"), ObjectDirOptions{})
	must(t, err)
	if _, err := d.GetConfigMap(t.Context(), "default", "x"); !apierrors.IsNotFound(err) || len(d.Problems()) > 0 {
		t.Errorf("%v, %v", err, d.Problems())
	}
	if _, err := NewObjectDir("", ObjectDirOptions{Period: -1}); err == nil || !strings.Contains(err.Error(), "path") || !strings.Contains(err.Error(), "period") {
		t.Error(err)
	}
}

// TestObjectFolderMustBeClosed: OB2. Files that others may read are not used, and the error says how to fix that.
func TestObjectFolderMustBeClosed(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	must(t, os.Mkdir(open, 0o700))
	for _, mode := range []os.FileMode{0o755, 0o750, 0o701} {
		must(t, os.Chmod(open, mode))
		if _, err := NewObjectDir(open, ObjectDirOptions{}); !errors.Is(err, ErrExposed) || !strings.Contains(err.Error(), "chmod 700") || !strings.Contains(err.Error(), open) {
			t.Errorf("%#o: %v", mode, err)
		}
	}
	f := newObjectFolder(t, ObjectDirOptions{})
	f.write("a.yaml", settings)
	must(t, os.Chmod(filepath.Join(f.path, "a.yaml"), 0o644))
	if got := f.mode(); !strings.Contains(got, "may be read by others") || !strings.Contains(got, "chmod 600") {
		t.Error(got)
	}
	if p := f.Problems(); len(p) != 1 || !errors.Is(p[0].Err, ErrExposed) {
		t.Errorf("%v", p)
	}
	must(t, os.Chmod(filepath.Join(f.path, "a.yaml"), 0o640)) // the folder keeps its group out
	f.relook()
	if got := f.mode(); got != "fast" || len(f.Problems()) > 0 {
		t.Error(got, f.text())
	}
	// The folder becomes open to others while it is in use: the known objects stay.
	must(t, os.Chmod(f.path, 0o755))
	f.write("a.yaml", strings.Replace(settings, "fast", "slow", 1))
	f.relook()
	if p := f.Unreadable(); f.mode() != "fast" || len(p) != 1 || !errors.Is(p[0], ErrExposed) || !strings.Contains(p[0].Advice, "fix the folder") {
		t.Errorf("%s, %v", f.mode(), p)
	}
	must(t, os.Chmod(f.path, 0o700))
	f.relook()
	if f.mode() != "slow" || len(f.Problems()) > 0 {
		t.Error(f.mode(), f.text())
	}
}

// TestObjectFolderKeepsWhatWasGood: OB3, OB5, OB6. A bad file causes a problem that names it and
// quotes nothing; its objects stay as they were, and no other file is affected.
func TestObjectFolderKeepsWhatWasGood(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, path string)
		want string
	}{
		{"not YAML", text("password: " + secretText + "\n\t- :"), "not a config map or secret"},
		{"a wrong type", text(strings.Replace(settings, "{mode: fast}", secretText, 1)), "wrong type"},
		{"not base64", text("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {x: \"" + secretText + "!\"}\n"), "not base64"},
		{"a pod", text(manifestOf("a", secretText)), `of kind "Pod"`},
		{"a list", text("apiVersion: v1\nkind: List\nitems: []\n"), `of kind "List"`},
		{"no kind", text("metadata: {name: x}\n"), "not a config map or secret"},
		{"twice", text(settings + "---\n" + settings), "a second time"},
		{"a bad name", text(strings.Replace(settings, "name: settings", "name: ../x", 1)), "invalid config map"},
		{"a bad namespace", text(strings.Replace(settings, "name: settings", "name: x, namespace: ../x", 1)), "invalid config map"},
		{"a bad key", text(strings.Replace(settings, "mode:", "../"+secretText+":", 1)), "a key has characters"},
		{"a key twice", text(strings.Replace(settings, "\ndata:", "\nbinaryData: {mode: AAE=}\ndata:", 1)), "in data and in binaryData"},
		{"too much data", text(strings.Replace(settings, "fast", strings.Repeat("x", maxObjectData+1), 1)), "more than 1048576 bytes"},
		{"5 MiB", func(t *testing.T, path string) { sparse(t, path, 5<<20) }, "more than 4 MiB"},
		{"a folder", func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }, "folder"},
		{"a FIFO", func(t *testing.T, path string) { must(t, syscall.Mkfifo(path, 0o600)) }, "FIFO"},
		{"a link that leads out", func(t *testing.T, path string) { must(t, os.Symlink("/etc/hostname", path)) }, "escapes"},
		{"a link that climbs out", func(t *testing.T, path string) { must(t, os.Symlink("../../../../etc/hostname", path)) }, "escapes"},
		{"a link to nothing", func(t *testing.T, path string) { must(t, os.Symlink("nowhere", path)) }, "no such file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var logs strings.Builder
			var f *objectFolder
			f = newObjectFolder(t, ObjectDirOptions{Logger: funcr.New(func(prefix, args string) {
				f.distrust("") // would deadlock if others could not look while it is logged
				logs.WriteString(args)
			}, funcr.Options{})})
			f.write("bad.yaml", settings)
			f.write("other.yaml", strings.Replace(settings, "name: settings", "name: other", 1))
			if f.mode() != "fast" {
				t.Fatal(f.mode())
			}
			path := filepath.Join(f.path, "bad.yaml")
			must(t, os.Remove(path))
			test.make(t, path)
			f.relook()
			if got := f.mode(); got != "fast" {
				t.Errorf("its last good version has gone: %s", got)
			}
			listed := f.Unreadable()
			if len(listed) != 1 || listed[0].Name != "bad.yaml" || !strings.Contains(listed[0].Cause, test.want) {
				t.Fatalf("%v", listed)
			}
			_, notFound := f.GetConfigMap(t.Context(), "default", "unknown")
			if notFound == nil || apierrors.IsNotFound(notFound) || !strings.Contains(notFound.Error(), "bad.yaml") {
				t.Errorf("an object that the file may define: %v", notFound)
			}
			for _, said := range []string{listed[0].String(), logs.String(), notFound.Error()} {
				if strings.Contains(said, secretText) {
					t.Errorf("quotes the file: %s", said)
				}
			}
			if m, err := f.GetConfigMap(t.Context(), "default", "other"); err != nil || m.Name != "other" {
				t.Errorf("the other file: %v", err)
			}
			must(t, os.RemoveAll(path))
			f.write("bad.yaml", strings.Replace(settings, "fast", "slow", 1))
			f.relook()
			if f.mode() != "slow" || len(f.Problems()) > 0 {
				t.Errorf("mended: %s, %s", f.mode(), f.text())
			}
			must(t, os.Remove(path))
			f.relook()
			if _, err := f.GetConfigMap(t.Context(), "default", "settings"); !apierrors.IsNotFound(err) {
				t.Errorf("removed: %v", err)
			}
		})
	}
}

// TestObjectFolderTakesTheLaterDefinition: F5 holds for objects; an unknown field is a warning.
func TestObjectFolderTakesTheLaterDefinition(t *testing.T) {
	f := newObjectFolder(t, ObjectDirOptions{})
	f.write("a.yaml", settings)
	f.write("b.yaml", strings.Replace(settings, "fast", "slow", 1)+secretText+": 1\n")
	if f.mode() != "slow" {
		t.Error(f.mode())
	}
	if got := f.text(); !strings.Contains(got, "a.yaml: another definition") || !strings.Contains(got, "b.yaml: unknown or repeated field") || strings.Contains(got, secretText) {
		t.Error(got)
	}
	if _, err := f.GetConfigMap(t.Context(), "default", "none"); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	must(t, os.Remove(filepath.Join(f.path, "b.yaml")))
	f.relook()
	if f.mode() != "fast" || len(f.Problems()) > 0 {
		t.Error(f.mode(), f.text())
	}
}

// TestObjectFolderLimits: OB3. A folder with too many files changes nothing. If files that are read
// for the first time are too large together, the last ones by name are left out.
func TestObjectFolderLimits(t *testing.T) {
	f := newObjectFolder(t, ObjectDirOptions{})
	f.write("a.yaml", settings)
	if f.mode() != "fast" {
		t.Fatal(f.mode())
	}
	f.pretendSize("a.yaml", maxObjectsSize-100)
	f.write("b.yaml", settingsNamed("b"))
	f.write("c.yaml", settingsNamed("c"))
	f.update()
	if got := f.text(); f.mode() != "fast" || !f.has("b") || got != "c.yaml: manifest is too large: all files together have more than 64 MiB" {
		t.Errorf("%s, %s", f.mode(), got)
	}
	for i := range maxObjectFiles {
		f.write("c"+strings.Repeat("x", i%200)+string(rune('a'+i/200))+".yaml", "")
	}
	f.relook()
	if p := f.Problems(); f.mode() != "fast" || !slices.ContainsFunc(p, func(p Problem) bool { return p.root && errors.Is(p.Err, ErrTooLarge) }) {
		t.Errorf("%s", f.mode())
	}
}

// TestObjectFolderTellsChanges: OB4, OB7. Run sees changes at the next poll at the latest and
// reports exactly the changed objects. Replacing a link changes all files at once.
func TestObjectFolderTellsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newObjectFolder(t, ObjectDirOptions{PollOnly: true})
		for _, version := range []string{"v1", "v2"} {
			must(t, os.Mkdir(filepath.Join(f.path, ".."+version), 0o700))
			for _, name := range []string{"settings", "other"} {
				content := strings.NewReplacer("name: settings", "name: "+name, "fast", version).Replace(settings)
				must(t, os.WriteFile(filepath.Join(f.path, ".."+version, name+".yaml"), []byte(content), 0o600))
			}
		}
		must(t, os.Symlink("..v1", filepath.Join(f.path, "..data")))
		for _, name := range []string{"settings", "other"} {
			must(t, os.Symlink("..data/"+name+".yaml", filepath.Join(f.path, name+".yaml")))
		}
		f.write("still.yaml", strings.Replace(settings, "name: settings", "name: still", 1))
		told := make(chan Object, 100)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx, func(o Object) { told <- o }) }()
		synctest.Wait()
		if len(told) != 3 || f.mode() != "v1" {
			t.Fatalf("%d objects at the start, %s, %s", len(told), f.mode(), f.text())
		}
		for range 3 {
			<-told
		}
		must(t, os.Symlink("..v2", filepath.Join(f.path, "..new")))
		must(t, os.Rename(filepath.Join(f.path, "..new"), filepath.Join(f.path, "..data")))
		<-time.After(20 * time.Second)
		synctest.Wait()
		got := []string{(<-told).Name, (<-told).Name}
		slices.Sort(got)
		if f.mode() != "v2" || !slices.Equal(got, []string{"other", "settings"}) || len(told) > 0 {
			t.Errorf("%s, told %v and %d more", f.mode(), got, len(told))
		}
		must(t, os.Remove(filepath.Join(f.path, "still.yaml")))
		<-time.After(20 * time.Second)
		synctest.Wait()
		if o := <-told; o != (Object{Kind: "ConfigMap", Namespace: "default", Name: "still"}) {
			t.Error(o)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestObjectFolderIsWatched: OB7 on a real file system. The period is an hour: the watch sees it.
func TestObjectFolderIsWatched(t *testing.T) {
	f := newObjectFolder(t, ObjectDirOptions{Period: time.Hour})
	told := make(chan Object, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx, func(o Object) { told <- o }) }()
	t.Cleanup(func() { cancel(); <-ended })
	for _, mode := range []string{"fast", "slow"} {
		f.write(".new", strings.Replace(settings, "fast", mode, 1))
		must(t, os.Rename(filepath.Join(f.path, ".new"), filepath.Join(f.path, "a.yaml")))
		<-told
		if got := f.mode(); got != mode {
			t.Errorf("%s, want %s", got, mode)
		}
	}
	must(t, os.Remove(filepath.Join(f.path, "a.yaml")))
	<-told
	if _, err := f.GetConfigMap(t.Context(), "default", "settings"); !apierrors.IsNotFound(err) || errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
