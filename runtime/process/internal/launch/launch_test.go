//go:build linux

package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRoot(t *testing.T) (*Root, string) {
	t.Helper()
	dir := t.TempDir()
	r, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r, dir
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// Absolute links and ".." mean what they mean inside the root.
func TestRootIsNotLeft(t *testing.T) {
	r, dir := newRoot(t)
	outside := t.TempDir()
	write(t, outside+"/secret", "outside", 0o600)
	write(t, dir+"/file", "inside", 0o600)
	link(t, outside, dir+"/out")
	link(t, "/file", dir+"/absolute")
	link(t, "../../../../../file", dir+"/up")
	for _, name := range []string{"/absolute", "/up", "/../../file", "file"} {
		if data, err := r.ReadFile(name); err != nil || string(data) != "inside" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if data, err := r.ReadFile("/out/secret"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left the root: %q, %v", data, err)
	}
	if err := r.makeFolders("/out/new/folder"); err == nil {
		t.Error("made folders behind a dangling link")
	}
	if err := r.makeFolders("/../a/b"); err != nil {
		t.Error(err)
	}
	if err := r.makeFile("/a/b/c"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir + "/a/b/c"); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside: %v, %v", entries, err)
	}
	if _, err := r.ReadFile("/a"); err == nil {
		t.Error("read a folder")
	}
}

func TestCommandIsFoundInThePathOfTheRoot(t *testing.T) {
	r, dir := newRoot(t)
	write(t, dir+"/usr/bin/tool", "", 0o755)
	write(t, dir+"/bin/tool", "", 0o644) // not executable
	write(t, dir+"/work/local", "", 0o755)
	link(t, "/usr/bin/tool", dir+"/bin/linked")
	for _, c := range []struct{ command, want string }{
		{"tool", "/usr/bin/tool"},
		{"linked", "/bin/linked"},
		{"./local", "/work/local"},
		{"/usr/bin/tool", "/usr/bin/tool"},
		{"local", ""},
		{"missing", ""},
		{"/bin/tool", ""},
		{"/usr/bin", ""},
	} {
		got, err := r.find(c.command, "::relative:/bin:/usr/bin", "/work")
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", c.command, got, err, c.want)
		}
	}
}

func TestUsersAndGroupsComeFromTheRoot(t *testing.T) {
	r, dir := newRoot(t)
	if u, err := r.UserByID(5); err != nil || u.UID != 5 || u.GID != 0 {
		t.Errorf("without files: %+v, %v", u, err)
	}
	if u, err := r.UserByName("app"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without files: %+v, %v", u, err)
	}
	write(t, dir+"/etc/passwd", "# c\nroot:x:0:0::/:\n\nshort:x\napp:x:7:8::/:/bin/sh\napp:x:9:9\nbad:x:y:1\n", 0o644)
	for name, find := range map[string]func() (*User, error){
		"name": func() (*User, error) { return r.UserByName("app") },
		"id":   func() (*User, error) { return r.UserByID(7) },
	} {
		if u, err := find(); err != nil || u.UID != 7 || u.GID != 8 || len(u.Groups) != 0 {
			t.Errorf("by %s: %+v, %v", name, u, err)
		}
	}
	write(t, dir+"/etc/group", "root:x:0:\na:x:20:x,app\nb:x:21:apple\nc:x:22:app\n", 0o644)
	if u, err := r.UserByName("app"); err != nil || !slices.Equal(u.Groups, []uint32{20, 22}) {
		t.Errorf("groups: %+v, %v", u, err)
	}
	if u, err := r.UserByName("bad"); err == nil {
		t.Errorf("malformed: %+v", u)
	}
	write(t, dir+"/etc/passwd", strings.Repeat("#", maxUserFile+1), 0o644)
	if _, err := r.UserByID(7); err == nil {
		t.Error("a huge file was read")
	}
}

// What is changed for a child stays on its thread.
func TestThreadIsSpoiledAlone(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	spec := Spec{Args: []string{"grep", "-q", "NoNewPrivs:.*1", "/proc/self/status"}, NoNewPrivs: true, Stdin: null, Stdout: null, Stderr: null}
	for range 10 {
		pid, fd, err := Start(spec)
		if err != nil {
			t.Fatal(err)
		}
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, 0, nil); err != nil || status.ExitStatus() != 0 {
			t.Errorf("child: %v, %v", status, err)
		}
		unix.Close(fd)
	}
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile("/proc/self/status")
	if err != nil || !strings.Contains(string(first), "NoNewPrivs:\t0") {
		t.Errorf("the first of %d threads is spoiled", len(tasks))
	}
	onThread := make(chan bool)
	go func() {
		onSpoiledThread(func() { onThread <- unix.Gettid() != unix.Getpid() })
	}()
	if !<-onThread {
		t.Error("the first thread would be spoiled")
	}
}

func ExampleStart() {
	null, err := os.Open(os.DevNull)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer null.Close()
	from, to, err := os.Pipe()
	if err != nil {
		fmt.Println(err)
		return
	}
	pid, fd, err := Start(Spec{
		Args: []string{"sh", "-c", "echo $GREETING from $PWD"}, Env: []string{"GREETING=hello"}, Dir: "/tmp",
		Stdin: null, Stdout: to, Stderr: to,
	})
	to.Close()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer unix.Close(fd)
	var line [64]byte
	n, _ := from.Read(line[:])
	fmt.Print(string(line[:n]))
	_, _ = unix.Wait4(pid, nil, 0, nil)
	// Output: hello from /tmp
}
