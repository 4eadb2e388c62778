package configfile

import (
	"errors"
	"reflect"
	"strings"
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
		{"- a\n", nil, []string{"cannot unmarshal"}},
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
