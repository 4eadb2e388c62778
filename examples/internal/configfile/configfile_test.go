package configfile

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// TestApply: each field sets its flag, unless the command line did; everything that is wrong is named at once.
func TestApply(t *testing.T) {
	for _, c := range []struct {
		text  string
		set   []string
		wrong []string
	}{
		{"plain: 3\ntext: a b\nmany: [x, w]\n", []string{"many=x", "many=w", "plain=3", "text=a b"}, nil},
		{"plain: 5m\nmany: {b: \"1\", a: x}\n", []string{"many=a=x", "many=b=1", "plain=5m"}, nil},
		{"given: 3\n", nil, nil},
		{"", nil, nil},
		{"text: 3\n", nil, []string{`the field "text": want text, in quotes`}},
		{"text: null\n", nil, []string{`the field "text": want text, in quotes`}},
		{"many: 3\nmany2: 1\nplain: 4\nbad: x\nconfig: f\n", []string{"plain=4"}, []string{
			`the field "many": want a list or a map`, `there is no field "many2": prog --help`, `the field "bad": refused`, `"config" belongs on the command line`,
		}},
		{"plain: 3\nplain: 4\n", nil, []string{"already set"}},
		{"- a\n", nil, []string{"it has no fields: want lines such as NAME: VALUE"}},
		{"text\n", nil, []string{"it has no fields: want lines such as NAME: VALUE"}},
	} {
		var set []string
		err := Apply([]byte(c.text), "prog", func(name string) (Setting, bool) {
			s := Setting{Given: name == "given", Kind: map[string]Kind{"text": Text, "many": Several}[name], Set: func(value string) error {
				if name == "bad" {
					return errors.New("refused")
				}
				set = append(set, name+"="+value)
				return nil
			}}
			return s, name != "many2"
		})
		if !reflect.DeepEqual(set, c.set) || (err == nil) != (c.wrong == nil) {
			t.Errorf("%q: set %q, want %q; %v", c.text, set, c.set, err)
		}
		for _, want := range c.wrong {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", c.text, err, want)
			}
		}
	}
}

// TestReadRefusesWhatIsNoFile: a pipe, a folder and a file without end are named, and hold nothing up.
func TestReadRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	for _, open := range []string{filepath.Dir(dir), dir} { // so that no mode above counts
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(large, nil, 0o600), os.Truncate(large, 1<<40)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "pipe is not a file", dir: "is not a file", large: "large has more than 1048576 bytes"} {
		err := Read(path, "prog", func(string) (Setting, bool) { return Setting{}, false })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
