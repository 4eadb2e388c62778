package offline_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/podwright/podwright/kube/offline"
)

// logs are the lines of a logger.
type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, prefix+args)
	}, funcr.Options{})
}

func (l *logs) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.Join(l.lines, "\n")
	l.lines = nil
	return text
}

// asking is a logger that asks the cache back, which would deadlock under its lock.
func asking(c **offline.Cache, l logr.Logger) logr.Logger {
	return funcr.New(func(_, args string) {
		(*c).Entries("")
		l.Info(args)
	}, funcr.Options{})
}

func newKey(t testing.TB, n byte) offline.Key {
	t.Helper()
	k, err := offline.NewKey(bytes.Repeat([]byte{n, n + 1}, 16))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// open opens a cache; its lines are added to the logs.
func open(t testing.TB, dir string, l *logs, change ...func(*offline.Options)) *offline.Cache {
	t.Helper()
	o := offline.Options{Dir: dir}
	if l != nil {
		o.Logger = l.logger()
	}
	for _, c := range change {
		c(&o)
	}
	c, err := offline.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sealed(keys ...offline.Key) func(*offline.Options) {
	return func(o *offline.Options) { o.Keys = keys }
}

// flush writes what waits.
func flush(t testing.TB, c *offline.Cache) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// run runs a cache until the returned function is called.
func run(t *testing.T, c *offline.Cache) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func secret(n int) offline.Entry {
	return offline.Entry{Kind: "Secret", Namespace: "ns", Name: fmt.Sprint("s", n)}
}

// has tells which of the first n secrets a cache has, with what.
func has(c *offline.Cache, n int) string {
	var out []string
	for i := range n {
		if value := ""; c.Get(secret(i), &value) {
			out = append(out, fmt.Sprint(i, "=", value))
		}
	}
	return strings.Join(out, " ")
}

func fileNames(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// KO8: what was put is there after a restart, what was removed is not; files and folder are closed to others, and with a key nothing of
// an entry can be read in them.
func TestEntriesOutliveTheProcess(t *testing.T) {
	for name, keys := range map[string][]offline.Key{"plain": nil, "sealed": {newKey(t, 1)}} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new", "cache")
			c := open(t, dir, nil, sealed(keys...))
			for i := range 3 {
				c.Put(secret(i), "old")
				c.Put(secret(i), fmt.Sprint("canary", i))
			}
			if got := has(c, 3); got != "0=canary0 1=canary1 2=canary2" {
				t.Errorf("before it is written: %s", got)
			}
			flush(t, c)
			c.Remove(secret(1))
			c.Remove(secret(7))
			if got := has(c, 3); got != "0=canary0 2=canary2" {
				t.Errorf("after a removal: %s", got)
			}
			flush(t, c)
			names := fileNames(t, dir)
			if len(names) != 2 {
				t.Fatalf("files %q", names)
			}
			info, err := os.Stat(dir)
			if err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("folder: %v, %v", info.Mode(), err)
			}
			for _, name := range names {
				path := filepath.Join(dir, name)
				info, err := os.Stat(path)
				content, err2 := os.ReadFile(path)
				if err := errors.Join(err, err2); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", name, info.Mode(), err)
				}
				for _, word := range []string{"canary", "Secret", "ns"} {
					if shown := bytes.Contains(content, []byte(word)); shown != (keys == nil) {
						t.Errorf("%s shows %q: %t", name, word, shown)
					}
				}
			}
			var l logs
			again := open(t, dir, &l, sealed(keys...))
			if got := has(again, 3); got != "0=canary0 2=canary2" || l.take() != "" {
				t.Errorf("after a restart: %s", got)
			}
			if got := again.Entries("Secret"); len(got) != 2 {
				t.Errorf("entries %v", got)
			}
		})
	}
}

// KO8: a file that is cut short, changed, foreign, renamed, of another key, or not sealed although there is a key, is left out; the error
// names it and quotes nothing. The others are there, and the next answer of the API server replaces it.
func TestBadFilesAreLeftOut(t *testing.T) {
	key := newKey(t, 1)
	for name, c := range map[string]struct {
		write, read []offline.Key
		harm        func(t *testing.T, path, other string)
		want        string
	}{
		"cut":             {harm: truncate(-1), want: "cut short"},
		"sealed, cut":     {write: []offline.Key{key}, read: []offline.Key{key}, harm: truncate(-1), want: "cut short"},
		"empty":           {harm: truncate(0), want: "no file of an offline cache"},
		"changed":         {harm: replaceIn("canary", "cenery"), want: "damaged"},
		"foreign":         {harm: overwrite([]byte("hello")), want: "no file of an offline cache"},
		"a link":          {harm: link, want: "renamed"},
		"a folder":        {harm: makeFolder, want: "no file of an offline cache"},
		"renamed":         {harm: copyOver, want: "renamed"},
		"sealed, renamed": {write: []offline.Key{key}, read: []offline.Key{key}, harm: copyOver, want: "sealed under another name"},
		"of another key":  {write: []offline.Key{key}, read: []offline.Key{newKey(t, 2)}, want: "sealed with key " + key.ID()},
		"without the key": {write: []offline.Key{key}, want: "the keys given are: none"},
		"not sealed":      {read: []offline.Key{key}, want: "not sealed although there is a key"},
		"newer":           {harm: newer, want: "newer version"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first := open(t, dir, nil, sealed(c.write...))
			first.Put(secret(0), "canary")
			flush(t, first)
			path := filepath.Join(dir, fileNames(t, dir)[0])
			first.Put(secret(1), "canary")
			flush(t, first)
			other := ""
			for _, name := range fileNames(t, dir) {
				if p := filepath.Join(dir, name); p != path {
					other = p
				}
			}
			want := ""
			if c.harm != nil {
				c.harm(t, path, other)
				want = "1=canary"
			}
			var l logs
			again := open(t, dir, &l, sealed(c.read...))
			if got := has(again, 2); got != want {
				t.Errorf("it has %q, want %q", got, want)
			}
			if text := l.take(); !strings.Contains(text, filepath.Base(path)) || !strings.Contains(text, c.want) || strings.Contains(text, "canary") {
				t.Errorf("logs, want %q: %s", c.want, text)
			}
			if name == "a folder" {
				return // nothing can be put in its place
			}
			again.Put(secret(0), "new")
			flush(t, again)
			third := open(t, dir, nil, sealed(c.read...))
			if value := ""; !third.Get(secret(0), &value) || value != "new" {
				t.Errorf("after the next answer: %q", value)
			}
		})
	}
}

// KO8: whichever byte of a file is changed, it is left out.
func TestEveryChangedByteIsNoticed(t *testing.T) {
	for name, keys := range map[string][]offline.Key{"plain": nil, "sealed": {newKey(t, 1)}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := open(t, dir, nil, sealed(keys...))
			c.Put(secret(0), "canary")
			flush(t, c)
			path := filepath.Join(dir, fileNames(t, dir)[0])
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := range content {
				changed := bytes.Clone(content)
				changed[i] ^= 1
				overwrite(changed)(t, path, "")
				var l logs
				if got := has(open(t, dir, &l, sealed(keys...)), 1); got != "" || !strings.Contains(l.take(), filepath.Base(path)) {
					t.Errorf("byte %d was changed: it has %q", i, got)
				}
			}
		})
	}
}

func truncate(by int64) func(t *testing.T, path, other string) {
	return func(t *testing.T, path, _ string) {
		info, err := os.Stat(path)
		size := by
		if by < 0 {
			size += info.Size()
		}
		if err := errors.Join(err, os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
	}
}

func overwrite(with []byte) func(t *testing.T, path, other string) {
	return func(t *testing.T, path, _ string) {
		if err := os.WriteFile(path, with, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func replaceIn(old, by string) func(t *testing.T, path, other string) {
	return func(t *testing.T, path, other string) {
		content, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(content, []byte(old)) {
			t.Fatal(err)
		}
		overwrite(bytes.ReplaceAll(content, []byte(old), []byte(by)))(t, path, other)
	}
}

func copyOver(t *testing.T, path, other string) {
	content, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(content)(t, path, other)
}

func makeFolder(t *testing.T, path, _ string) {
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "x"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, path, other string) {
	if err := errors.Join(os.Remove(path), os.Symlink(filepath.Base(other), path)); err != nil {
		t.Fatal(err)
	}
}

func newer(t *testing.T, path, other string) {
	overwrite(offline.Frame(9, []byte("what will be")))(t, path, other)
}

// KO8: files that an earlier release wrote are read, plain and sealed ones.
func TestEarlierFilesAreRead(t *testing.T) {
	const name = "f21b52fe95490c12e6e01d246d51516c.kept"
	for file, keys := range map[string][]offline.Key{
		"podwright-offline 1 daa6a7900618451e6c85175bcbacaace8f3ff45a03d0ab644b47cfabd73a0709\n" +
			`{"entry":{"kind":"Secret","namespace":"ns","name":"s0"},"value":"canary"}`: nil,
		"podwright-offline 2 ece67ae975282ba78da19010ed4bbafa4d1defca667c28719aca32da72042580\nc854e2394d5e0d9a\n" +
			unbase64(t, "bf7GuebijtIoAII6d/baGcQbsX2o0ttyc+BFsOL1sf44ZZcWjvugWrr91pNjJDqmiIlCAc4cD6shmq4KzEgc7MWqtwNfyKEnUJCABkg86YkM4bYZNZ0Bf/0RHpy97Arf3S8+59M="): {newKey(t, 1)},
	} {
		dir := t.TempDir()
		overwrite([]byte(file))(t, filepath.Join(dir, name), "")
		var l logs
		if got := has(open(t, dir, &l, sealed(keys...)), 1); got != "0=canary" || l.take() != "" {
			t.Errorf("with %d keys: %q", len(keys), got)
		}
	}
}

func unbase64(t *testing.T, text string) string {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// KO8: what an older key has sealed is read, and sealed again with the newest.
func TestKeysRotate(t *testing.T) {
	dir, old, young := t.TempDir(), newKey(t, 1), newKey(t, 2)
	for i, keys := range [][]offline.Key{{old}, {young, old}, {young}} {
		c := open(t, dir, nil, sealed(keys...))
		if i == 0 {
			c.Put(secret(0), "a")
		}
		flush(t, c)
		if got := has(c, 1); got != "0=a" {
			t.Errorf("with %v: %q", keys, got)
		}
	}
}

// KO8: what no pod needs goes at the second look, with files that cannot be used; what was put between two looks stays. Files of others are
// left alone.
func TestUnwantedEntriesGo(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, nil)
	first.Put(secret(9), "broken")
	flush(t, first)
	overwrite([]byte("x"))(t, filepath.Join(dir, fileNames(t, dir)[0]), "")
	overwrite([]byte("mine"))(t, filepath.Join(dir, "notes.txt"), "")
	c := open(t, dir, nil)
	for i := range 3 {
		c.Put(secret(i), "a")
	}
	wanted := func(e offline.Entry) bool { return e == secret(0) }
	c.Retain(wanted)
	c.Put(secret(2), "a") // a pod that came since needs it
	c.Put(secret(3), "a")
	c.Retain(wanted)
	flush(t, c)
	if got, names := has(c, 10), fileNames(t, dir); got != "0=a 2=a 3=a" || len(names) != 4 {
		t.Errorf("it has %q, files %q", got, names)
	}
	c.Retain(wanted)
	flush(t, c)
	if got, names := has(open(t, dir, nil), 10), fileNames(t, dir); got != "0=a" || len(names) != 2 {
		t.Errorf("it has %q, files %q", got, names)
	}
}

// KO8: the cache is bounded. An entry that has no room is left out, which is logged once; the one before it stays, and it is taken when there is
// room again.
func TestCacheIsBounded(t *testing.T) {
	var l logs
	var c *offline.Cache
	c = open(t, t.TempDir(), &l, func(o *offline.Options) { o.MaxBytes, o.Logger = 4000, asking(&c, o.Logger) })
	c.Put(secret(0), "small")
	c.Put(secret(1), strings.Repeat("x", 3000))
	for range 3 {
		c.Put(secret(0), strings.Repeat("y", 3000))
	}
	flush(t, c)
	if value := ""; !c.Get(secret(0), &value) || value != "small" || strings.Count(l.take(), "is full") != 1 {
		t.Errorf("it has %q", value)
	}
	c.Remove(secret(1))
	c.Put(secret(0), strings.Repeat("y", 3000))
	if value := ""; !c.Get(secret(0), &value) || len(value) != 3000 || l.take() != "" {
		t.Errorf("with room it has %q", value)
	}
	c.Put(secret(2), strings.Repeat("z", 20<<20))
	if c.Get(secret(2), new(string)) {
		t.Error("an entry above the limit of a file is kept")
	}
}

// KO8: a full disk keeps the file before, is logged once for all files, and written within a minute of having room; one
// file that can never be written holds up no other.
func TestFullDiskIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var l logs
		var c *offline.Cache
		c = open(t, dir, &l, func(o *offline.Options) { o.Logger = asking(&c, o.Logger) })
		var mu sync.Mutex
		full, tries, stuck := false, 0, ""
		c.Write(func(root *os.Root, name string, data []byte, write func(*os.Root, string, []byte) error) error {
			mu.Lock()
			defer mu.Unlock()
			tries++
			if full || name == stuck {
				return &fs.PathError{Op: "write", Path: name, Err: syscall.ENOSPC}
			}
			return write(root, name, data)
		})
		setFull := func(to bool) { mu.Lock(); defer mu.Unlock(); full = to }
		defer run(t, c)()
		const n = 20
		for i := range n {
			c.Put(secret(i), "old")
		}
		synctest.Wait()
		setFull(true)
		for i := range n {
			c.Put(secret(i), "new")
		}
		<-time.After(24 * time.Hour)
		synctest.Wait()
		if text := l.take(); strings.Count(text, "\n") != 0 || !strings.Contains(text, "no space left") || strings.Contains(text, "new\"") {
			t.Errorf("logs: %s", text)
		}
		if mu.Lock(); tries > n+n*(24*60+10) {
			t.Errorf("%d tries in a day", tries)
		}
		mu.Unlock()
		if got := has(open(t, dir, nil), 1); got != "0=old" {
			t.Errorf("on a full disk: %s", got)
		}
		setFull(false)
		<-time.After(time.Minute)
		synctest.Wait()
		if got := has(open(t, dir, nil), n); strings.Count(got, "=new") != n {
			t.Errorf("with room: %s", got)
		}
		if text := l.take(); strings.Count(text, "written again") != 1 {
			t.Errorf("logs: %s", text)
		}
		mu.Lock()
		stuck = fileNames(t, dir)[0]
		mu.Unlock()
		<-time.After(time.Hour)
		for i := range n {
			c.Put(secret(i), "newest")
		}
		synctest.Wait()
		if got := has(open(t, dir, nil), n); strings.Count(got, "=newest") != n-1 {
			t.Errorf("beside one that cannot be written: %s", got)
		}
	})
}

// KO8: options are checked; a folder that others can change is refused, a disk that is full is not the end of the agent.
func TestOpenChecksTheFolder(t *testing.T) {
	top := t.TempDir()
	open := filepath.Join(top, "open")
	if err := errors.Join(os.Chmod(filepath.Dir(top), 0o755), os.Chmod(top, 0o755), os.Mkdir(open, 0o700), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	overwrite(nil)(t, file, "")
	for want, o := range map[string]offline.Options{
		"not an absolute path": {Dir: "cache"},
		"take over":            {Dir: filepath.Join(open, "cache")},
		"not a directory":      {Dir: file},
		"is not a key":         {Dir: t.TempDir(), Keys: []offline.Key{{}}},
		"appears twice":        {Dir: t.TempDir(), Keys: []offline.Key{newKey(t, 1), newKey(t, 1)}},
		"MaxBytes":             {Dir: t.TempDir(), MaxBytes: -1},
	} {
		if _, err := offline.Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A nil cache keeps nothing, and a second Run at a time is refused.
func TestNilCacheAndSecondRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none *offline.Cache
		none.Put(secret(0), "a")
		none.Remove(secret(0))
		none.Retain(func(offline.Entry) bool { return false })
		if none.Get(secret(0), new(string)) || none.Entries("Secret") != nil {
			t.Error("a nil cache has something")
		}
		flush(t, none)
		c := open(t, t.TempDir(), nil)
		end := run(t, c)
		synctest.Wait()
		if err := c.Run(t.Context()); !errors.Is(err, offline.ErrRunning) {
			t.Error(err)
		}
		end()
		flush(t, c)
	})
}

// Keys show their ID, whichever way they are printed.
func TestKeyShowsItsID(t *testing.T) {
	k := newKey(t, 1)
	if text := fmt.Sprintf("%v %s %+v %#v", k, k, k, k); text != strings.TrimSpace(strings.Repeat(k.ID()+" ", 4)) || len(k.ID()) != 16 {
		t.Error(text)
	}
	if _, err := offline.NewKey([]byte("short")); err == nil || (offline.Key{}).ID() != "" {
		t.Errorf("a short key: %v", err)
	}
}

// KO8: Put from many goroutines while files are written.
func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, nil)
	end := run(t, c)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 50 {
				c.Put(secret(i), fmt.Sprint(w))
				if (i+w)%7 == 0 {
					c.Remove(secret(i))
				}
				c.Get(secret(i), new(string))
				c.Retain(func(offline.Entry) bool { return true })
			}
		})
	}
	wg.Wait()
	for i := range 50 {
		c.Put(secret(i), "last")
	}
	end()
	if got := has(open(t, dir, nil), 50); strings.Count(got, "=last") != 50 {
		t.Error(got)
	}
}

// BenchmarkOpen opens a cache of 1,000 objects of 2 kB: less than 100 ms (KO8).
func BenchmarkOpen(b *testing.B) {
	for name, keys := range map[string][]offline.Key{"plain": nil, "sealed": {newKey(b, 1)}} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			c := open(b, dir, nil, sealed(keys...))
			for i := range 1000 {
				c.Put(secret(i), strings.Repeat("x", 2000))
			}
			flush(b, c)
			for b.Loop() {
				if got := open(b, dir, nil, sealed(keys...)).Entries("Secret"); len(got) != 1000 {
					b.Fatal(len(got))
				}
			}
		})
	}
}
