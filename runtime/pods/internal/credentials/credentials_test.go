package credentials_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/registrykey"
	"github.com/podwright/podwright/runtime/pods/internal/credentials"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func configJSON(name, auths string) *v1.Secret {
	return &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-of-" + "s"},
		Type:       v1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":` + auths + `}`)},
	}
}

// users looks an image up and returns the user names in order.
func users(t *testing.T, image string, secrets ...*v1.Secret) string {
	t.Helper()
	k, err := credentials.New(secrets, credentials.NodeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return usersOf(k, image)
}

func usersOf(k *credentials.Keyring, image string) string {
	var out []string
	for _, c := range k.Lookup(registrykey.Repository(image)) {
		out = append(out, c.Auth.GetUsername())
	}
	return strings.Join(out, " ")
}

// spec/runtime.md 10.2, 10.3, edge case 15.
func TestKeyMatchesHostPortAndPathPrefix(t *testing.T) {
	for _, tc := range []struct {
		key, image string
		match      bool
	}{
		{"reg.io", "reg.io/a/b:1", true},
		{"http://reg.io", "reg.io/a", true},
		{"https://reg.io/", "reg.io/a", true},
		{"https://reg.io/v1/", "reg.io/a", true},
		{"https://reg.io/v2/", "reg.io/a", true},
		{"https://reg.io/v2/a", "reg.io/a/b", true},
		{"https://reg.io/v2/a", "reg.io/b", false},
		{"reg.io/foo", "reg.io/foobar/x", true}, // edge case 15
		{"reg.io/foo", "reg.io/fo", false},
		{"reg.io/foo/*", "reg.io/foo/x", false},
		{"*.reg.io", "a.reg.io/x", true},
		{"*.reg.io", "a.b.reg.io/x", false}, // edge case 15
		{"*.reg.io", "reg.io/x", false},
		{"r?g.i[oO]", "reg.io/x", true},
		{"*.*", "reg.io/x", true},
		{"*", "reg.io/x", false},
		{"[", "reg.io/x", false},
		{"reg.io", "reg.io:5000/x", false}, // edge case 15
		{"reg.io:5000", "reg.io:5000/x", true},
		{"reg.io:*", "reg.io:5000/x", false},
		{"reg.io:5000", "reg.io/x", false},
		{"[::1]:5000", "[::1]:5000/x", true},
		{"[::1]", "[::1]:5000/x", false},
		{"docker.io", "nginx", true},
		{"docker.io/library", "nginx:1", true},
		{"docker.io/joe", "joe/web", true},
		{"docker.io/joe", "docker.io/joe/web@sha256:" + strings.Repeat("a", 64), true},
		{"docker.io", "index.docker.io/nginx", true},
		{"docker.io", "localhost/nginx", false},
		{"localhost", "localhost/nginx", true},
		{"", "reg.io/x", false},
	} {
		got := users(t, tc.image, configJSON("s", fmt.Sprintf(`{%q:{"username":"u","password":"p"}}`, tc.key)))
		if (got == "u") != tc.match {
			t.Errorf("10.3: key %q and image %q: %q, want match %v", tc.key, tc.image, got, tc.match)
		}
	}
}

// spec/runtime.md 10.4: longer keys first, then the order of the secrets; the
// default registry's own key when nothing else matched.
func TestLongerKeysComeFirst(t *testing.T) {
	entry := func(user string) string { return fmt.Sprintf(`{"username":%q,"password":"p"}`, user) }
	one := configJSON("one", `{"reg.io":`+entry("a1")+`,"reg.io/foo":`+entry("b1")+`,"https://index.docker.io/v1/":`+entry("hub")+`}`)
	two := configJSON("two", `{"reg.io":`+entry("a2")+`,"http://reg.io/foo/bar":`+entry("c2")+`,"re?.io":`+entry("g2")+`}`)
	for image, want := range map[string]string{
		"reg.io/foo/bar/x": "c2 b1 a1 a2 g2",
		"reg.io/foo/x":     "b1 a1 a2 g2",
		"reg.io/x":         "a1 a2 g2",
		"nginx":            "hub",
		"joe/web":          "hub",
		"docker.io/x":      "hub",
		"other.com/x":      "",
	} {
		if got := users(t, image, one, two); got != want {
			t.Errorf("10.4: %s: %q, want %q", image, got, want)
		}
	}
	if got := users(t, "nginx", one, configJSON("three", `{"docker.io":`+entry("d")+`}`)); got != "d" {
		t.Errorf("10.4: what matches is enough: %q", got)
	}
}

func auth(text string, pad bool) string {
	if pad {
		return base64.StdEncoding.EncodeToString([]byte(text))
	}
	return base64.RawStdEncoding.EncodeToString([]byte(text))
}

// spec/runtime.md 10.1, edge case 16.
func TestSecretsOfEveryTypeAreRead(t *testing.T) {
	legacy := func(data string) *v1.Secret {
		return &v1.Secret{Type: v1.SecretTypeDockercfg, Data: map[string][]byte{v1.DockerConfigKey: []byte(data)}}
	}
	for _, tc := range []struct {
		rule   string
		secret *v1.Secret
		want   string // user:password, or "!" and a part of the error
	}{
		{"fields", configJSON("s", `{"reg.io":{"username":"u","password":"p","email":"e"}}`), "u:p"},
		{"auth wins", configJSON("s", `{"reg.io":{"username":"x","password":"y","auth":"`+auth("u:p", true)+`"}}`), "u:p"},
		{"edge case 16 padded", configJSON("s", `{"reg.io":{"auth":"`+auth("u:pa", true)+`"}}`), "u:pa"},
		{"edge case 16 unpadded", configJSON("s", `{"reg.io":{"auth":"`+auth("u:pa", false)+`"}}`), "u:pa"},
		{"line break at the end", configJSON("s", `{"reg.io":{"auth":"`+auth("u:pa", true)+`\n"}}`), "u:pa"},
		{"line break at the end, unpadded", configJSON("s", `{"reg.io":{"auth":"`+auth("u:pa", false)+`\r\n"}}`), "u:pa"},
		{"line breaks within, and in the padding", configJSON("s", `{"reg.io":{"auth":"dTp\nwYQ=\r\n=\n"}}`), "u:pa"},
		{"first colon", configJSON("s", `{"reg.io":{"auth":"`+auth("u:p:q", true)+`"}}`), "u:p:q"},
		{"edge case 16 no colon", configJSON("s", `{"reg.io":{"auth":"`+auth("hunter2", true)+`"}}`), `!registry "reg.io": auth is not base64 of user:password`},
		{"not base64", configJSON("s", `{"reg.io":{"auth":"hunter2!"}}`), `!auth is not base64`},
		{"broken entry elsewhere", configJSON("s", `{"reg.io":{"username":"u","password":"p"},"other.io":{"auth":"x"}}`), `!registry "other.io"`},
		{"dockercfg", legacy(`{"reg.io":{"username":"u","password":"p"}}`), "u:p"},
		{"not JSON", legacy(`hunter2`), "!not a JSON object"},
		{"wrong type of field", legacy(`{"reg.io":{"username":4711,"password":"p"}}`), "!not a JSON object"},
		{"not an object", configJSON("s", `["hunter2"]`), "!not a JSON object"},
		{"no auths", &v1.Secret{Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{}`)}}, ""},
		{"null", configJSON("s", "null"), ""},
		{"no data", &v1.Secret{Type: v1.SecretTypeDockerConfigJson}, ""},
		{"another type", &v1.Secret{Type: v1.SecretTypeOpaque, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`broken`)}}, ""},
		{"empty entry", configJSON("s", `{"reg.io":{}}`), ""},
	} {
		t.Run("10.1 "+tc.rule, func(t *testing.T) {
			k, err := credentials.New([]*v1.Secret{tc.secret}, credentials.NodeConfig{})
			if message, bad := strings.CutPrefix(tc.want, "!"); bad {
				if err == nil || !strings.Contains(err.Error(), message) {
					t.Fatalf("err %v, want %s", err, message)
				}
				for _, secret := range []string{"hunter2", "4711", auth("hunter2", true)} {
					if strings.Contains(err.Error(), secret) {
						t.Errorf("the error quotes the secret: %v", err)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, c := range k.Lookup("reg.io/x") {
				got += c.Auth.GetUsername() + ":" + c.Auth.GetPassword()
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// spec/runtime.md 10.5: the node's own come after the pod's, whatever matches
// better; config.json hides .dockercfg.
func TestNodeConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	look := func(want string) {
		t.Helper()
		node, err := credentials.ReadNodeConfig(dir)
		if err != nil {
			t.Fatal(err)
		}
		k, err := credentials.New([]*v1.Secret{configJSON("s", `{"reg.io":{"username":"pod","password":"p"}}`)}, node)
		if err != nil {
			t.Fatal(err)
		}
		if got := usersOf(k, "reg.io/foo/x"); got != want {
			t.Errorf("10.5: %q, want %q", got, want)
		}
		for i, c := range k.Lookup("reg.io/foo/x") {
			if (c.Secret == nil) != (i == 1) {
				t.Errorf("9.9: credential %d is from %v", i, c.Secret)
			}
		}
	}
	look("pod")
	write(".dockercfg", `{"reg.io/foo":{"username":"old","password":"p"}}`)
	look("pod old")
	write("config.json", `{"auths":{"reg.io/foo":{"username":"node","password":"p"}},"credsStore":"x"}`)
	look("pod node")
	write("config.json", `hunter2`)
	node, err := credentials.ReadNodeConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := credentials.New(nil, node); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("broken: %v", err)
	}
	write("config.json", strings.Repeat(" ", 10<<20+1))
	if _, err := credentials.ReadNodeConfig(dir); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("too large: %v", err)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "config.json")), syscall.Mkfifo(filepath.Join(dir, "config.json"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := credentials.ReadNodeConfig(dir); err == nil {
		t.Error("a pipe was read")
	}
	if _, err := credentials.ReadNodeConfig(""); err != nil {
		t.Errorf("none: %v", err)
	}
}

func TestRedactAndHash(t *testing.T) {
	k, err := credentials.New([]*v1.Secret{configJSON("s", `{"reg.io":{"username":"u","password":"hunter2"},"*.io":{"username":"v","password":"hunter2"}}`)}, credentials.NodeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	list := k.Lookup("reg.io/x")
	text := fmt.Sprintf("GET https://u:hunter2@reg.io: %s %s", auth("u:hunter2", true), auth("v:hunter2", false))
	if got := credentials.Redact(text, list); strings.Contains(got, "hunter2") || strings.Contains(got, auth("u:hunter2", false)) || !strings.Contains(got, "reg.io") {
		t.Errorf("redacted to %q", got)
	}
	if a, b := list[0].Hash(), list[1].Hash(); a == b || len(a) != 64 || a != list[0].Hash() {
		t.Errorf("9.9: hashes %s and %s", a, b)
	}
}

// Whatever stands in a secret or an image name, nothing panics, and only a key that
// matches gives a credential.
func FuzzKeyring(f *testing.F) {
	f.Add("https://reg.io/v1/a", "reg.io:5000/a@x")
	f.Add("*.[a-", "a.b/c")
	f.Fuzz(func(t *testing.T, key, image string) {
		k, err := credentials.New([]*v1.Secret{configJSON("s", fmt.Sprintf(`{%q:{"username":"u","password":"p"}}`, key))}, credentials.NodeConfig{})
		if err == nil && len(k.Lookup(registrykey.Repository(image))) > 1 {
			t.Errorf("one key, %d credentials", len(k.Lookup(registrykey.Repository(image))))
		}
	})
}
