package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a small module and returns its folder.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.org/m\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const rootSource = `package m

import (
	"context"

	"example.org/m/internal/inner"
	"example.org/m/room"
)

type Engine struct {
	*parts
	room.Room
	Name  string
	count int
}

type parts struct{ Shown string }

func (*parts) Promoted(ctx context.Context) error { return nil }
func (Engine) Value()                             {}
func (*Engine) Pointer(first, second int, more ...room.Room) (n int, err error) { return 0, nil }
func (*Engine) hidden() int                                                     { return (&Engine{}).count }

type Recorder = inner.Recorder
type Other = room.Room
type State string

const Running State = "Running"

var Default = Running

func Map[K comparable, V any](m map[K]V, f func(key K) V) []V { return nil }
func hidden()                                           { hidden(); (&Engine{}).hidden() }

type Store interface {
	context.Context
	Get(name string) (value string, ok bool)
	close()
}
type Box[T any] struct{ Value T }

func (b Box[T]) Get() T { return b.Value }
`

func TestDescriptionListsWhatUsersSee(t *testing.T) {
	dir := module(t, map[string]string{
		"m.go":                    rootSource,
		"room/room.go":            "package room\n\ntype Room struct{}\n\nfunc (Room) Open() {}\n",
		"internal/inner/inner.go": "package inner\n\ntype Recorder interface{ Event(text string) }\n",
		"cmd/tool/main.go":        "package main\n\nfunc main() {}\n",
		"guide/guide_test.go":     "package guide_test\n\ntype Shown int\n",
	})
	files, err := describe(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 {
		t.Errorf("files = %v, want m.txt and room.txt", files)
	}
	want := `# example.org/m: 9 exported names
const Running State = "Running"
func Map[K comparable, V any](map[K]V, func(key K) V) []V
method (*Engine) Pointer(int, int, ...room.Room) (int, error)
method (Box) Get() T
method (Engine) Promoted(context.Context) error
method (Engine) Value()
type Box struct, Value T
type Box[T any] struct
type Engine struct
type Engine struct, Name string
type Engine struct, Shown string
type Engine struct, embeds room.Room
type Other = room.Room
type Recorder = internal/inner.Recorder
type Recorder interface, Event(string)
type State string
type Store interface
type Store interface, Get(string) (string, bool)
type Store interface, embeds context.Context
type Store interface, unexported methods
var Default State
`
	if got := files["m.txt"]; got != want {
		t.Errorf("m.txt:\n%s\nwant:\n%s", got, want)
	}
	if want := "# example.org/m/room: 1 exported names\nmethod (Room) Open()\ntype Room struct\n"; files["room.txt"] != want {
		t.Errorf("room.txt = %q, want %q", files["room.txt"], want)
	}
}

func TestSameSourcesGiveTheSameText(t *testing.T) {
	dir := module(t, map[string]string{"m.go": "package m\n\nfunc B() {}\nfunc A() {}\n"})
	first, err := describe(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := describe(dir)
	if err != nil || first["m.txt"] != second["m.txt"] {
		t.Errorf("%v: %q and %q differ", err, first["m.txt"], second["m.txt"])
	}
}

func TestCodeThatDoesNotBuildIsAnError(t *testing.T) {
	if _, err := describe(module(t, map[string]string{"m.go": "package m\n\nfunc A() int {}\n"})); err == nil || !strings.Contains(err.Error(), "missing return") {
		t.Errorf("err = %v, want the compiler's message", err)
	}
}

func TestCheckNamesEachDifferenceAndTheRemedy(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, map[string]string{"a.txt": "func A()\nfunc B()\n", "room/gone.txt": "func G()\n"}); err != nil {
		t.Fatal(err)
	}
	now := map[string]string{"a.txt": "func A(int)\nfunc B()\n", "new.txt": "func N()\n"}
	err := compare(dir, now)
	if err == nil {
		t.Fatal("no difference was noticed")
	}
	for _, want := range []string{
		"api/a.txt: -func A()\n", "api/a.txt: +func A(int)\n", "api/room/gone.txt: -func G()\n", "api/new.txt: +func N()\n", "make api",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the message lacks %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "func B") {
		t.Errorf("the message names a line that did not change:\n%v", err)
	}
	if err := write(dir, now); err != nil {
		t.Fatal(err)
	}
	if err := compare(dir, now); err != nil {
		t.Errorf("after writing: %v", err)
	}
}
