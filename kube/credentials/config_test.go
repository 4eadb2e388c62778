package credentials

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podwright/podwright/internal/privatedir"
)

const head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"

// one is a provider of the configuration, with more lines after it.
func one(name string, more ...string) string {
	return "- name: " + name + "\n  matchImages: [\"*.example:5000/team\", reg.io]\n  defaultCacheDuration: 10m\n" +
		"  apiVersion: credentialprovider.kubelet.k8s.io/v1\n" + strings.Join(more, "")
}

const tokens = "  tokenAttributes:\n    serviceAccountTokenAudience: registry\n"

// KG1: every field of the configuration arrives.
func TestConfigIsRead(t *testing.T) {
	got, err := parseConfig([]byte(head + one("a", "  args: [get, --fast]\n  env: [{name: REGION, value: north=1}]\n", tokens,
		"    cacheType: Token\n    requireServiceAccount: true\n    requiredServiceAccountAnnotationKeys: [example.com/role]\n    optionalServiceAccountAnnotationKeys: [tenant]\n") +
		one("b", tokens, "    cacheType: ServiceAccount\n    requireServiceAccount: false\n")))
	if err != nil {
		t.Fatal(err)
	}
	images := []string{"*.example:5000/team", "reg.io"}
	want := []*provider{
		{
			name: "a", images: images, life: 10 * time.Minute, apiVersion: "credentialprovider.kubelet.k8s.io/v1",
			args: []string{"get", "--fast"}, env: []string{"REGION=north=1"},
			tokens: &tokenRules{audience: "registry", perToken: true, needed: true, required: []string{"example.com/role"}, optional: []string{"tenant"}},
		},
		{
			name: "b", images: images, life: 10 * time.Minute, apiVersion: "credentialprovider.kubelet.k8s.io/v1",
			tokens: &tokenRules{audience: "registry"},
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(provider{}, tokenRules{})); diff != "" {
		t.Error(diff)
	}
}

// KG1: what is wrong with a configuration is named, all of it.
func TestBadConfigIsRefused(t *testing.T) {
	replaced := func(old, with string) string { return head + strings.Replace(one("a"), old, with, 1) }
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":                {"", []string{`apiVersion "", kind ""`, "no providers"}},
		"no YAML":                {"\t", []string{"yaml"}},
		"another version":        {strings.Replace(head, "/v1", "/v2", 1) + one("a"), []string{"kubelet.config.k8s.io/v2"}},
		"a field that is none":   {head + one("a", "  matchImage: [x]\n"), []string{`matchImage`}},
		"two keys":               {head + one("a", "  name: b\n"), []string{`name`}},
		"no name":                {head + one(`""`), []string{`providers[0] ""`, "without slash"}},
		"a path":                 {head + one("../a"), []string{"without slash"}},
		"a folder":               {head + one(`".."`), []string{"without slash"}},
		"no images":              {replaced(`["*.example:5000/team", reg.io]`, "[]"), []string{"matchImages is empty"}},
		"a port with a glob":     {replaced("reg.io", `"reg.io:*"`), []string{`"reg.io:*"`, "port"}},
		"an image of nothing":    {replaced("reg.io", `""`), []string{"want a host"}},
		"a glob without an end":  {replaced("reg.io", `"[a.io"`), []string{"[a"}},
		"an image with a space":  {replaced("reg.io", `"a b.io"`), []string{"space"}},
		"no cache duration":      {replaced("  defaultCacheDuration: 10m\n", ""), []string{"defaultCacheDuration is required"}},
		"negative duration":      {replaced("10m", "-1s"), []string{"negative"}},
		"another plugin version": {replaced("k8s.io/v1\n", "k8s.io/v2\n"), []string{"k8s.io/v2"}},
		"an env without a name":  {head + one("a", "  env: [{name: \"A=\", value: x}]\n"), []string{`env "A="`}},
		"several":                {head + one(`""`) + one("b", tokens), []string{"providers[0]", "providers[1]"}},
		"tokens of an old version": {
			strings.Replace(head+one("a", tokens, "    cacheType: Token\n    requireServiceAccount: true\n"), "provider.kubelet.k8s.io/v1", "provider.kubelet.k8s.io/v1beta1", 1),
			[]string{"has no tokens"},
		},
		"empty tokens": {head + one("a", "  tokenAttributes: {}\n"), []string{"Audience is required", `cacheType ""`, "requireServiceAccount is required"}},
		"annotations": {
			head + one("a", tokens, "    cacheType: Token\n    requireServiceAccount: false\n    requiredServiceAccountAnnotationKeys: [a, a b]\n    optionalServiceAccountAnnotationKeys: [a]\n"),
			[]string{"need requireServiceAccount", `"a" is named twice`, `"a b" is no key`},
		},
	} {
		_, err := parseConfig([]byte(c.text))
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in: %v", name, want, err)
			}
		}
	}
}

// KG1: older versions of the configuration and of the protocol are read too.
func TestOlderVersionsAreRead(t *testing.T) {
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		text := strings.ReplaceAll(head+one("a"), "k8s.io/v1\n", "k8s.io/"+version+"\n")
		got, err := parseConfig([]byte(text))
		if err != nil || got[0].apiVersion != pluginGroup+version {
			t.Errorf("%s: %v, %v", version, got, err)
		}
	}
}

// rig is a folder with a configuration and plugins.
type rig struct {
	t   *testing.T
	dir string
}

func newRig(t *testing.T) rig {
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return rig{t, dir}
}

func (r rig) write(name, text string, mode fs.FileMode) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		r.t.Fatal(err)
	}
	return path
}

func (r rig) options() Options { return Options{Config: filepath.Join(r.dir, "config"), BinDir: r.dir} }

// KG1: the files of a folder are read in the order of their names, others are left alone.
func TestFolderOfConfigs(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b", "c"} {
		r.write(name, "#!/bin/sh\n", 0o755)
	}
	r.write("config/2.json", `{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[{"name":"c","matchImages":["c.io"],"defaultCacheDuration":"0s","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}]}`, 0o600)
	r.write("config/1.yaml", head+one("b")+one("a"), 0o600)
	r.write("config/0.txt", "no configuration", 0o600)
	s, err := New(r.options())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range s.providers {
		names = append(names, p.name)
	}
	if got := strings.Join(names, " "); got != "b a c" {
		t.Errorf("providers %q", got)
	}
	r.write("config/3.yml", head+one("a"), 0o600)
	if _, err := New(r.options()); err == nil || !strings.Contains(err.Error(), `"a" is named twice`) {
		t.Errorf("a name in two files: %v", err)
	}
}

// KG2: a configuration or plugin that is missing, or that another user could change, is an error
// that says what to do.
func TestUnsafeFilesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(r rig)
		want    string
		unsafe  bool
	}{
		"no configuration": {func(r rig) {}, "config", false},
		"an empty folder":  {func(r rig) { r.write("config/x", "", 0o600) }, "no file whose name ends", false},
		"open configuration": {func(r rig) {
			r.write("a", "#!/bin/sh\n", 0o755)
			r.write("config", head+one("a"), 0o666)
		}, "chmod go-w", true},
		"no plugin":  {func(r rig) { r.write("config", head+one("a"), 0o600) }, "a does not exist: install", false},
		"no program": {func(r rig) { r.write("config", head+one("a"), 0o600); r.write("a", "", 0o644) }, "chmod +x", false},
		"a folder":   {func(r rig) { r.write("config", head+one("a"), 0o600); r.write("a/b", "", 0o755) }, "not a program", false},
		"open plugin": {func(r rig) {
			r.write("config", head+one("a"), 0o600)
			r.write("a", "", 0o775)
		}, "chmod go-w", true},
		"tokens without a source": {func(r rig) {
			r.write("config", head+one("a", tokens, "    cacheType: Token\n    requireServiceAccount: true\n"), 0o600)
			r.write("a", "", 0o755)
		}, "Tokens and Accounts are required", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c.prepare(r)
			if _, err := New(r.options()); err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, privatedir.ErrUnsafe) != c.unsafe {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if _, err := New(Options{BinDir: "bin"}); err == nil || !strings.Contains(err.Error(), "Config is required") || !strings.Contains(err.Error(), `"bin"`) {
		t.Errorf("bad options: %v", err)
	}
}
