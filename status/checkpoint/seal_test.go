package checkpoint_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/status/checkpoint"
)

// sealedFiles returns a store with keys.
func sealedFiles(t testing.TB, folder checkpoint.FS, trust bool, keys ...checkpoint.Key) *checkpoint.Files {
	t.Helper()
	s := checkpoint.NewFiles(folder)
	if err := s.Seal(keys, trust); err != nil {
		t.Fatal(err)
	}
	return s
}

// secretive returns a record with a word in it that must not be seen.
func secretive(uid types.UID) *checkpoint.Record {
	r := record(uid, 1)
	r.Pod.Spec.Containers = []v1.Container{{Name: "main", Env: []v1.EnvVar{{Name: "PASSWORD", Value: "s3cret"}}}}
	return r
}

// TestSealedRecordComesBack (CK12): with its key, and nothing of it is readable in the file.
func TestSealedRecordComesBack(t *testing.T) {
	dir := t.TempDir()
	folder := checkpoint.Dir(dir)
	uids := []types.UID{"uid-1", "../odd/uid"}
	for _, uid := range uids {
		if err := sealedFiles(t, folder, false, checkpointtest.Key(t, 1)).Write(t.Context(), []*checkpoint.Record{secretive(uid)}); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"s3cret", "PASSWORD", "default", "Running", "uid"} {
			if bytes.Contains(text, []byte(word)) {
				t.Errorf("%s shows %q", e.Name(), word)
			}
		}
	}
	loaded, err := sealedFiles(t, folder, false, checkpointtest.Key(t, 1)).Load(t.Context())
	if err != nil || len(loaded.Bad) != 0 || len(loaded.Records) != 2 {
		t.Fatalf("%+v, %v", loaded, err)
	}
	for _, r := range loaded.Records {
		if d := cmp.Diff(secretive(r.UID), r); d != "" {
			t.Error(d)
		}
	}
}

// TestEarlierRecordsAreRead (CK2, CK12): files that an earlier release wrote are read, plain and sealed ones.
func TestEarlierRecordsAreRead(t *testing.T) {
	sealed, err := base64.StdEncoding.DecodeString("AmPvnZFur6uPnSLi1DMxN15YIyfMzXNWwai630aXiF78TcuKZKbUOi89kYtOB1/aOiC8TA7eJke7GKD4PxnG+4SYsXZJ98tNhh3Q")
	if err != nil {
		t.Fatal(err)
	}
	for file, keys := range map[string][]checkpoint.Key{
		"podwright-checkpoint 1 32bc2b68a76245065d284eab566b6a80e2bea1c946b03573b5eb55cfac26ed7c\n" +
			`{"uid":"uid-1","namespace":"shop","name":"web"}`: nil,
		"podwright-checkpoint 2 a2b8ad2f847c8cc723a893d72546a4394e679165659ca6b54056ce734205ded0\n6ec57eba8a1a0977\n" +
			string(sealed): {checkpointtest.Key(t, 1)},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "uid-1"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		loaded, err := sealedFiles(t, checkpoint.Dir(dir), false, keys...).Load(t.Context())
		if err != nil || len(loaded.Bad) != 0 || len(loaded.Records) != 1 || loaded.Records[0].Name != "web" {
			t.Errorf("with %d keys: %+v, %v", len(keys), loaded, err)
		}
	}
}

// TestChangedSealedRecordIsSetAside (CK12, CK2): every changed byte is noticed although the
// checksum was corrected, and so is a record in the place of another pod's.
func TestChangedSealedRecordIsSetAside(t *testing.T) {
	dir := t.TempDir()
	folder, key := checkpoint.Dir(dir), checkpointtest.Key(t, 1)
	if err := sealedFiles(t, folder, false, key).Write(t.Context(), []*checkpoint.Record{record("uid-1", 1), record("uid-2", 1)}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "uid-1")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := bytes.Cut(good, []byte("\n"))
	try := func(name string, body []byte, want string) {
		if err := os.WriteFile(path, checkpoint.FileOfVersion(2, body), 0o600); err != nil {
			t.Fatal(err)
		}
		loaded, err := sealedFiles(t, folder, false, key).Load(t.Context())
		if err != nil || len(loaded.Records) != 1 || loaded.Records[0].UID != "uid-2" || len(loaded.Bad) != 1 {
			t.Fatalf("%s: %+v, %v", name, loaded, err)
		}
		if text := loaded.Bad[0].String(); !strings.Contains(text, want) || strings.Contains(text, "fake://") {
			t.Errorf("%s: %s", name, text)
		}
		if err := errors.Join(os.RemoveAll(path), os.RemoveAll(filepath.Join(dir, loaded.Bad[0].Aside))); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < len(body); i += 1 + i/40 {
		changed := slices.Clone(body)
		changed[i] ^= 1
		want := "uid-1: corrupt"
		if i < 16 {
			want = "uid-1: " // of another key, or of none
		}
		try(fmt.Sprint("byte ", i), changed, want)
	}
	try("cut", body[:len(body)-1], "uid-1: corrupt")
	try("only a key", body[:17], "uid-1: corrupt")
	try("nothing", nil, "uid-1: corrupt")
	other, err := os.ReadFile(filepath.Join(dir, "uid-2"))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ = bytes.Cut(other, []byte("\n"))
	try("another pod's", body, "uid-1: corrupt: checksum or form is wrong: it was changed, or sealed under another name")
}

// TestRecordWaitsForItsKey (CK12): a record whose key was not given is set aside with an error that says so,
// and counts again once the key is given; a record written since counts instead, and a deleted pod has neither.
func TestRecordWaitsForItsKey(t *testing.T) {
	old, wrong := checkpointtest.Key(t, 1), checkpointtest.Key(t, 2)
	for _, keys := range [][]checkpoint.Key{{wrong}, nil} {
		t.Run(fmt.Sprint(keys), func(t *testing.T) {
			dir := t.TempDir()
			folder := checkpoint.Dir(dir)
			all := []*checkpoint.Record{record("kept", 1), record("again", 1), record("over", 1)}
			if err := sealedFiles(t, folder, false, old).Write(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			second := sealedFiles(t, folder, true, keys...)
			for range 2 {
				loaded, err := second.Load(t.Context())
				if err != nil || len(loaded.Records) != 0 || len(loaded.Bad) != 3 {
					t.Fatalf("%+v, %v", loaded, err)
				}
				for _, b := range loaded.Bad {
					if text := b.String(); !strings.Contains(text, "sealed with key "+old.ID()) || b.Aside != b.Name+".refused-"+old.ID() {
						t.Errorf("%s", text)
					}
				}
			}
			if err := second.Write(t.Context(), []*checkpoint.Record{record("again", 5)}); err != nil {
				t.Fatal(err)
			}
			if err := second.Delete(t.Context(), []types.UID{"over"}); err != nil {
				t.Fatal(err)
			}
			if len(keys) > 0 { // back to the right key alone: what the other one sealed gives way
				other := t.TempDir()
				beside := checkpoint.Dir(other)
				if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				loaded, err := sealedFiles(t, beside, false, old).Load(t.Context())
				if err != nil || len(loaded.Bad) != 0 || len(loaded.Records) != 2 || loaded.Records[0].Version != 1 || loaded.Records[1].Version != 1 {
					t.Errorf("back to the first key: %+v, %v", loaded, err)
				}
			}
			third := sealedFiles(t, folder, true, append([]checkpoint.Key{old}, keys...)...)
			loaded, err := third.Load(t.Context())
			if err != nil || len(loaded.Records) != 2 || len(loaded.Bad) != 0 {
				t.Fatalf("%+v, %v", loaded, err)
			}
			for _, r := range loaded.Records {
				if want := map[types.UID]uint64{"kept": 1, "again": 5}[r.UID]; r.Version != want {
					t.Errorf("%s has version %d, want %d", r.UID, r.Version, want)
				}
			}
			if err := third.Delete(t.Context(), []types.UID{"kept", "again"}); err != nil {
				t.Fatal(err)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
				t.Errorf("left: %v, %v", entries, err)
			}
		})
	}
}

// TestPlainRecordNeedsTrust (CK12): with a key, a record that is not sealed counts only if it is trusted, and is
// sealed then.
func TestPlainRecordNeedsTrust(t *testing.T) {
	folder := checkpoint.Dir(t.TempDir())
	if err := checkpoint.NewFiles(folder).Write(t.Context(), []*checkpoint.Record{record("uid-1", 1)}); err != nil {
		t.Fatal(err)
	}
	key := checkpointtest.Key(t, 1)
	loaded, err := sealedFiles(t, folder, false, key).Load(t.Context())
	if err != nil || len(loaded.Records) != 0 || len(loaded.Bad) != 1 || !strings.Contains(loaded.Bad[0].String(), "uid-1: not sealed") {
		t.Fatalf("%+v, %v", loaded, err)
	}
	rewrite(t, folder, true, key)
	loaded, err = sealedFiles(t, folder, false, key).Load(t.Context())
	if err != nil || len(loaded.Records) != 1 || len(loaded.Bad) != 0 {
		t.Fatalf("after the start with trust: %+v, %v", loaded, err)
	}
}

// TestKeysRotate (CK12): what an older key has sealed is read, and sealed again with the newest.
func TestKeysRotate(t *testing.T) {
	folder := checkpoint.Dir(t.TempDir())
	first, second := checkpointtest.Key(t, 1), checkpointtest.Key(t, 2)
	if err := sealedFiles(t, folder, false, first).Write(t.Context(), []*checkpoint.Record{record("uid-1", 1), record("uid-2", 1)}); err != nil {
		t.Fatal(err)
	}
	if n := rewrite(t, folder, false, second, first); n != 2 {
		t.Errorf("%d files were written, want 2", n)
	}
	loaded, err := sealedFiles(t, folder, false, second).Load(t.Context())
	if err != nil || len(loaded.Records) != 2 || len(loaded.Bad) != 0 {
		t.Fatalf("without the older key: %+v, %v", loaded, err)
	}
	if n := rewrite(t, folder, false, second, first); n != 0 {
		t.Errorf("%d files were written again", n)
	}
}

// rewrite lets a keeper load the folder and end, and returns how many files it wrote.
func rewrite(t *testing.T, folder checkpoint.FS, trust bool, keys ...checkpoint.Key) int64 {
	t.Helper()
	files := checkpoint.NewFiles(folder)
	keeper := checkpoint.NewKeeper(checkpoint.Options{Store: files, Keys: keys, TrustPlain: trust, BootID: "boot", Reserve: -1})
	stop := run(t, keeper)
	if problems := keeper.Problems(); len(problems) != 0 {
		t.Error(problems)
	}
	stop()
	n, _ := files.Written()
	return n
}

// TestKeyIsAKey (CK12): an invalid key is refused, and no error or printed key contains the secret.
func TestKeyIsAKey(t *testing.T) {
	for _, secret := range [][]byte{nil, []byte("short"), make([]byte, 32), bytes.Repeat([]byte("x"), 32), bytes.Repeat([]byte("ab"), 32)} {
		if _, err := checkpoint.NewKey(secret); err == nil || len(secret) > 0 && strings.Contains(err.Error(), string(secret)) {
			t.Errorf("%q: %v", secret, err)
		}
	}
	key := checkpointtest.Key(t, 1)
	secret := sha256.Sum256([]byte{1})
	text := fmt.Sprintf("%v %+v %#v %s %+v", key, key, key, key, checkpoint.Options{Keys: []checkpoint.Key{key}})
	for _, form := range []string{string(secret[:]), hex.EncodeToString(secret[:]), fmt.Sprint(secret[:4])} {
		if strings.Contains(text, form) {
			t.Errorf("a print shows the secret: %s", text)
		}
	}
	for name, keys := range map[string][]checkpoint.Key{"none": {{}}, "twice": {key, key}} {
		if err := checkpoint.NewFiles(&checkpointtest.Disk{}).Seal(keys, false); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, o := range map[string]checkpoint.Options{
		"the Store checkpoint_test.openStore does not seal": {Keys: []checkpoint.Key{key}, Store: openStore{}},
		"record key 0 is not a key":                         {Keys: []checkpoint.Key{{}}, Store: checkpoint.NewFiles(&checkpointtest.Disk{})},
		"has no effect without Keys":                        {TrustPlain: true, Store: checkpoint.NewFiles(&checkpointtest.Disk{})},
	} {
		if err := o.CheckKeys(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %q", err, name)
		}
	}
	if (checkpoint.Key{}).ID() != "" || len(key.ID()) != 16 {
		t.Errorf("IDs %q and %q", checkpoint.Key{}.ID(), key.ID())
	}
}

// TestSealedRecordOfEverySizeFits (9.11): what a seal adds counts toward the limit.
func TestSealedRecordOfEverySizeFits(t *testing.T) {
	folder := checkpoint.Dir(t.TempDir())
	s := sealedFiles(t, folder, false, checkpointtest.Key(t, 1))
	for size := checkpoint.MaxSize - 1200; size < checkpoint.MaxSize; size += 23 {
		r := record("uid-1", 1)
		r.Pod.Annotations = map[string]string{"a": strings.Repeat("x", size)}
		if err := s.Write(t.Context(), []*checkpoint.Record{r}); err != nil {
			t.Fatal(err)
		}
		if loaded, err := s.Load(t.Context()); err != nil || len(loaded.Records) != 1 {
			t.Fatalf("%d bytes: %+v, %v", size, loaded.Bad, err)
		}
	}
}

// openStore is a store that cannot seal.
type openStore struct{ checkpoint.Store }

// TestReplacedPlainRecordGoes (CK12): a refused plain record, with the content it shows, does not
// stay on the disk once a sealed one is in its place.
func TestReplacedPlainRecordGoes(t *testing.T) {
	dir := t.TempDir()
	folder, key := checkpoint.Dir(dir), checkpointtest.Key(t, 1)
	if err := checkpoint.NewFiles(folder).Write(t.Context(), []*checkpoint.Record{secretive("uid-1")}); err != nil {
		t.Fatal(err)
	}
	files := func() (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	s := sealedFiles(t, folder, false, key)
	if loaded, err := s.Load(t.Context()); err != nil || len(loaded.Bad) != 1 || !slices.Equal(files(), []string{"uid-1.refused-plain"}) {
		t.Fatalf("%+v, %v, %v", loaded, files(), err)
	}
	if err := s.Write(t.Context(), []*checkpoint.Record{record("uid-1", 2)}); err != nil {
		t.Fatal(err)
	}
	loaded, err := sealedFiles(t, folder, false, key).Load(t.Context())
	if err != nil || len(loaded.Bad) != 0 || len(loaded.Records) != 1 || loaded.Records[0].Version != 2 || !slices.Equal(files(), []string{"uid-1"}) {
		t.Errorf("%+v, %v, %v", loaded, files(), err)
	}
}
