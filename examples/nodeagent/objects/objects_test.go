package objects_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/nodeagent/objects"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
)

var _ pods.ObjectGetter = objects.Dir{}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDir(t *testing.T) {
	d := objects.Dir{Path: t.TempDir()}
	write(t, d.Path, "a.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: fast}
---
apiVersion: v1
kind: Secret
metadata: {name: db, namespace: prod, uid: u1}
type: Opaque
data: {user: am9l}
stringData: {password: hunter2}
`)
	write(t, d.Path, "b.json", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"bad"},"data":{"x":"hunter2!"}}`)
	write(t, d.Path, "notes.txt", "no manifest")
	m, err := d.GetConfigMap(t.Context(), "default", "settings")
	if err != nil || m.Data["mode"] != "fast" {
		t.Errorf("%v, err %v", m, err)
	}
	s, err := d.GetSecret(t.Context(), "prod", "db")
	if err != nil || string(s.Data["user"]) != "joe" || string(s.Data["password"]) != "hunter2" || s.Type != v1.SecretTypeOpaque || s.UID != "u1" {
		t.Errorf("%v, err %v", s, err)
	}
	for _, name := range []string{"db", "settings", "none"} {
		if _, err := d.GetSecret(t.Context(), "default", name); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.GetSecret(t.Context(), "default", "bad"); err == nil || !strings.Contains(err.Error(), "b.json") {
		t.Errorf("broken data: %v", err)
	}
	write(t, d.Path, "c.yaml", "password: hunter2\n\t- :")
	if _, err := d.GetSecret(t.Context(), "prod", "db"); err != nil {
		t.Errorf("a broken file beside it: %v", err)
	}
	for _, name := range []string{"bad", "none"} {
		if _, err := d.GetSecret(t.Context(), "default", name); err == nil || errors.Is(err, runtime.ErrNotFound) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.GetConfigMap(ctx, "default", "none"); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(d.Path, "d.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.GetConfigMap(t.Context(), "default", "none"); err == nil || strings.Contains(err.Error(), "root:") {
		t.Errorf("a link that leads out: %v", err)
	}
}
