package poddir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// spec/runtime.md 3.7: what a pod has got is written whole, readable by root
// only, and never read or written outside the pod's folder.
func TestRecordIsWrittenWholeBelowThePodsFolder(t *testing.T) {
	dir := t.TempDir()
	r := poddir.Records{Store: poddir.Store{Path: filepath.Join(dir, "pods")}, Name: "userns"}
	if _, err := r.Read("u"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := r.Remove("u"); err != nil {
		t.Errorf("nothing to remove: %v", err)
	}
	for _, text := range []string{"a long record", "short"} {
		if err := r.Write("u", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Read("u"); err != nil || string(got) != text {
			t.Errorf("read %q, err %v", got, err)
		}
	}
	path := filepath.Join(dir, "pods/u/userns")
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, err %v", info.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "pods/u/*")); err != nil || len(left) != 1 {
		t.Errorf("left %v, err %v", left, err)
	}
	if uids, err := r.Pods(); err != nil || len(uids) != 1 || uids[0] != "u" {
		t.Errorf("pods %v, err %v", uids, err)
	}
	if err := errors.Join(r.Remove("u"), r.Remove("u")); err != nil {
		t.Error(err)
	}
	if _, err := r.Read("u"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed, and still %v", err)
	}

	secret := filepath.Join(dir, "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("x"), 0o600), os.Symlink("../../secret", path)); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Read("u"); err == nil {
		t.Errorf("read %q through a link", got)
	}
	if err := r.Write("u", []byte("mine")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "x" {
		t.Errorf("the file behind the link is %q, err %v", got, err)
	}
	for _, uid := range []string{"", "..", "a/b"} {
		if _, err := r.Read(types.UID(uid)); err == nil || r.Write(types.UID(uid), nil) == nil || r.Remove(types.UID(uid)) == nil {
			t.Errorf("UID %q is taken", uid)
		}
	}
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read("u"); err == nil {
		t.Error("a record of 1 MiB is read")
	}
}
