package main

import (
	"bytes"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podwright/podwright/kube"
)

// KF1: what the file says counts as if the command line said it; the command line wins, for a
// flag that may be repeated as a whole.
func TestConfigFile(t *testing.T) {
	file := configFile(t, `
kubeconfig: /etc/kubenode/kubeconfig
node-name: "1e3"
port: 10260
v: 2
when-gone: drain
label: {zone: west, tier: "1"}
`, 0o600)
	o, err := parse([]string{"--config=" + file, "--port=-1"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.kubeconfig != "/etc/kubenode/kubeconfig" || o.name != "1e3" || o.port != -1 || o.verbosity != 2 || o.gone != kube.Drain {
		t.Errorf("%+v", o)
	}
	if want := (labels{"zone": "west", "tier": "1"}); !maps.Equal(o.labels, want) {
		t.Errorf("labels %v, want %v", o.labels, want)
	}
	if o, err := parse([]string{"--config=" + file, "--node-name=Edge-1"}, io.Discard); err != nil || o.name != "edge-1" {
		t.Errorf("the name of the node is %q, %v", o.name, err)
	}
	o, err = parse([]string{"--config=" + file, "--label=zone=east"}, io.Discard)
	if want := (labels{"zone": "east"}); err != nil || !maps.Equal(o.labels, want) {
		t.Errorf("labels %v, want %v; %v", o.labels, want, err)
	}
	o, err = parse([]string{"--config=" + configFile(t, "kubeconfig: a\nlabel: [zone=north]\n", 0o600)}, io.Discard)
	if want := (labels{"zone": "north"}); err != nil || !maps.Equal(o.labels, want) {
		t.Errorf("labels %v, want %v; %v", o.labels, want, err)
	}
}

func configFile(t *testing.T, content string, mode os.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "kubenode.yaml")
	for _, open := range []string{filepath.Dir(dir), dir} { // so that the mode of the file counts
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
	return file
}

// KF2: an error names the file and every field that is wrong; nothing starts.
func TestBadConfigFile(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		want    []string
	}{
		"unknown fields":       {"nodeName: a\nlabels: {a: b}\n", 0o600, []string{"kubenode.yaml", `no field "nodeName"`, `no field "labels"`}},
		"a field twice":        {"port: 1\nport: 2\n", 0o600, []string{`"port"`}},
		"a number for a text":  {"node-name: 7\n", 0o600, []string{`field "node-name": want text, in quotes`}},
		"nothing for a text":   {"node-name:\n", 0o600, []string{`field "node-name": want text`}},
		"a list for a text":    {"node-name: [a]\n", 0o600, []string{`field "node-name": want text`}},
		"a text for a number":  {"port: https\n", 0o600, []string{`field "port"`}},
		"nothing for a number": {"port:\n", 0o600, []string{`field "port"`}},
		"a label of a number":  {"label: {tier: 1}\n", 0o600, []string{`field "label": want a list or a map of texts`}},
		"another file":         {"config: other.yaml\n", 0o600, []string{`"config" belongs on the command line`}},
		"no map":               {"- port\n", 0o600, []string{"kubenode.yaml"}},
		"no YAML":              {"port: [\n", 0o600, []string{"kubenode.yaml"}},
		"a wrong value":        {"kubeconfig: a\nwhen-gone: dance\n", 0o600, []string{"rejoin, drain and exit"}},
		"of other users too":   {"port: 1\n", 0o666, []string{"kubenode.yaml", "take over the agent"}},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			code := run([]string{"--config=" + configFile(t, c.content, c.mode)}, io.Discard, &stderr)
			for _, want := range c.want {
				if code != 1 || !strings.Contains(stderr.String(), want) {
					t.Errorf("code %d, want %q in: %s", code, want, stderr.String())
				}
			}
		})
	}
	var stderr bytes.Buffer
	if code := run([]string{"--config=" + filepath.Join(t.TempDir(), "none.yaml")}, io.Discard, &stderr); code != 1 || !strings.Contains(stderr.String(), "none.yaml") {
		t.Errorf("code %d: %s", code, stderr.String())
	}
}

// KF3: the example is a file that kubenode takes, and the guide has a line for every flag.
func TestConfigFileExampleAndGuide(t *testing.T) {
	example, err := os.ReadFile("kubenode.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parse([]string{"--config=" + configFile(t, string(example), 0o600)}, io.Discard); err != nil {
		t.Error(err)
	}
	_ = os.Getenv("PODWRIGHT_DOCS") // the result is not remembered if tools/ci sees other pages
	guide, err := os.ReadFile("../../docs/guide/kubenode.md")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, match := range regexp.MustCompile("(?m)^\\| `--([a-z0-9-]+)` \\|").FindAllSubmatch(guide, -1) {
		told = append(told, string(match[1]))
	}
	var names []string
	flagSet(&options{labels: labels{}}).VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	for _, name := range names {
		if !slices.Contains(told, name) {
			t.Errorf("docs/guide/kubenode.md has no line | `--%s` |", name)
		}
	}
	for _, name := range told {
		if !slices.Contains(names, name) {
			t.Errorf("docs/guide/kubenode.md has a line for --%s, which is no flag", name)
		}
	}
}

// KF4: help goes to stdout and lists every flag; a wrong flag is one line that says where help is.
func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"--help"}, &stdout, &stderr); code != 0 || stderr.Len() != 0 {
		t.Errorf("code %d, stderr %q", code, stderr.String())
	}
	for _, want := range []string{"kubenode --kubeconfig FILE", "\n  --node-name NAME\n", "\n  --config FILE\n", "(default 10250)"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, stdout.String())
		}
	}
	stdout.Reset()
	if code := run([]string{"--nodename=a"}, &stdout, &stderr); code != 1 || stdout.Len() != 0 ||
		stderr.String() != "kubenode: flag provided but not defined: -nodename; kubenode --help lists the flags\n" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
	}
}
