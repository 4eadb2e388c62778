package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/status/checkpoint"
)

// record returns a record with something in every part.
func record(uid types.UID, version uint64) *checkpoint.Record {
	return &checkpoint.Record{
		UID: uid, Namespace: "default", Name: "web", Source: "file", ConfigHash: "h", BootID: "boot",
		Admission: &checkpoint.Admission{At: time.Unix(100, 0).UTC()},
		Status:    &v1.PodStatus{Phase: v1.PodRunning}, Version: version,
		Acks: []checkpoint.Ack{{Sink: "api", Version: version}},
		Containers: []checkpoint.Container{{
			Name: "main", ID: "fake://1", Started: true, Ready: true, RestartCount: 2,
			Probes: proberesult.Facts{proberesult.Readiness: {Stored: proberesult.Success, Last: proberesult.Failure, Run: 3}},
			Ends:   []checkpoint.End{{ID: "fake://0", ExitCode: 3, Reason: "Error", RestartCount: 1}},
		}},
		Pod: &v1.Pod{Spec: v1.PodSpec{NodeName: "n1"}},
	}
}

// load reads a folder as a new process would.
func load(t *testing.T, folder checkpoint.FS) checkpoint.Loaded {
	t.Helper()
	loaded, err := checkpoint.NewFiles(folder).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// status.md 9.2, CK1. What is written comes back, and only its owner can read it.
func TestWrittenRecordComesBack(t *testing.T) {
	root := filepath.Join(t.TempDir(), "state", "pods")
	folder := checkpoint.Dir(root)
	want := record("uid-1", 7)
	if err := checkpoint.NewFiles(folder).Write(t.Context(), []*checkpoint.Record{want}); err != nil {
		t.Fatal(err)
	}
	loaded := load(t, folder)
	if len(loaded.Records) != 1 || len(loaded.Bad) != 0 {
		t.Fatalf("%+v", loaded)
	}
	if d := cmp.Diff(want, loaded.Records[0]); d != "" {
		t.Error(d)
	}
	for path, mode := range map[string]fs.FileMode{root: 0o700, filepath.Join(root, "uid-1"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v, want %v", path, info.Mode(), err, mode)
		}
	}
	if err := checkpoint.NewFiles(folder).Delete(t.Context(), []types.UID{"uid-1", "never"}); err != nil {
		t.Fatal(err)
	}
	if left := load(t, folder); len(left.Records) != 0 {
		t.Errorf("left after Delete: %v", left)
	}
}

// CK2: the record of a newer version that names a kind of probe this one does not know is used,
// without that kind, and can be written again.
func TestUnknownKindOfProbeIsLeftOut(t *testing.T) {
	root := t.TempDir()
	body := `{"uid":"uid-1","version":7,"containers":[{"name":"main","probes":{
		"disk":{"success":true,"inodes":[1]},"tape":"full","readiness":{"success":true,"run":3}}}]}`
	if err := os.WriteFile(filepath.Join(root, "uid-1"), checkpoint.FileOfVersion(1, []byte(body)), 0o600); err != nil {
		t.Fatal(err)
	}
	var logged []string
	keeper := checkpoint.NewKeeper(checkpoint.Options{
		Store:  checkpoint.NewFiles(checkpoint.Dir(root)),
		Logger: funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}),
	})
	loaded, err := keeper.Load(t.Context())
	if err != nil || len(loaded.Records) != 1 || len(loaded.Bad) != 0 {
		t.Fatalf("%+v, %v", loaded, err)
	}
	want := []checkpoint.Container{{Name: "main", Probes: proberesult.Facts{
		proberesult.Readiness: {Stored: proberesult.Success, Last: proberesult.Failure, Run: 3},
	}}}
	if d := cmp.Diff(want, loaded.Records[0].Containers); d != "" {
		t.Error(d)
	}
	if len(logged) != 1 || !strings.Contains(logged[0], `"uid"="uid-1"`) {
		t.Errorf("logged: %q", logged)
	}
	if err := checkpoint.NewFiles(checkpoint.Dir(root)).Write(t.Context(), loaded.Records); err != nil {
		t.Error(err)
	}
}

// CK2: fields that only an older or a newer version knows are ignored, the rest of the record is used.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	root := t.TempDir()
	body := `{"uid":"uid-1","version":7,"weather":{"wind":3},"containers":[{"name":"main","id":"x://a","restartCount":2,"attempts":4}]}`
	if err := os.WriteFile(filepath.Join(root, "uid-1"), checkpoint.FileOfVersion(1, []byte(body)), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded := load(t, checkpoint.Dir(root))
	if len(loaded.Records) != 1 || len(loaded.Bad) != 0 {
		t.Fatalf("%+v", loaded)
	}
	want := &checkpoint.Record{UID: "uid-1", Version: 7, Containers: []checkpoint.Container{{Name: "main", ID: "x://a", RestartCount: 2}}}
	if d := cmp.Diff(want, loaded.Records[0]); d != "" {
		t.Error(d)
	}
}

// No UID leaves the folder, takes another's file, or is mistaken
// for something else in it.
func TestHostileUIDsStayInTheFolder(t *testing.T) {
	outside := t.TempDir()
	root := filepath.Join(outside, "state", "pods")
	folder := checkpoint.Dir(root)
	uids := []types.UID{
		"../../escaped", "/etc/escaped", "..", ".", "a/b", "nul\x00byte", ".tmp-uid-1", "uid-1.corrupt", "%41", "A", "a",
		types.UID(strings.Repeat("x", 5000)), "ünïcode", "new\nline",
	}
	store := checkpoint.NewFiles(folder)
	var all []*checkpoint.Record
	for i, uid := range uids {
		all = append(all, record(uid, uint64(i)))
	}
	if err := store.Write(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	got := map[types.UID]uint64{}
	for _, r := range load(t, folder).Records {
		got[r.UID] = r.Version
	}
	for i, uid := range uids {
		if v, ok := got[uid]; !ok || v != uint64(i) {
			t.Errorf("%.40q: version %d, %v", uid, v, ok)
		}
	}
	err := filepath.WalkDir(outside, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Dir(path) != root {
			t.Errorf("%s lies outside the folder", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), uids); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(root); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if err := store.Write(t.Context(), []*checkpoint.Record{{}}); err == nil {
		t.Error("a record without UID was written")
	}
}

// file returns the content of a record's file.
func file(t *testing.T, r *checkpoint.Record) []byte {
	t.Helper()
	disk := &checkpointtest.Disk{}
	if err := checkpoint.NewFiles(disk).Write(t.Context(), []*checkpoint.Record{r}); err != nil {
		t.Fatal(err)
	}
	data, err := disk.Read(disk.Names()[0], checkpoint.MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// newer returns the content of a record file of format version 2, with a right
// checksum.
func newer(t *testing.T) []byte {
	t.Helper()
	body := []byte(`{"everything":"is different"}`)
	return checkpoint.FileOfVersion(3, body)
}

// CK2, status.md 9.5, edge case 25, cleanup edge case 34: every kind of
// unusable file is reported, none keeps the others from being loaded; damaged ones
// are set aside, all else is left as it is.
func TestBadFilesAreReported(t *testing.T) {
	good := file(t, record("uid-x", 1))
	disk := &checkpointtest.Disk{}
	disk.Put("uid-good", file(t, record("uid-good", 1)), 0)
	disk.Put("uid-empty", nil, 0)
	disk.Put("uid-short", good[:len(good)/2], 0)
	disk.Put("uid-text", []byte("kubernetes was here\n"), 0)
	disk.Put("uid-other", good, 0) // the record of another pod
	disk.Put("uid-huge", bytes.Repeat([]byte("x"), checkpoint.MaxSize+1), 0)
	disk.Put("uid-newer", newer(t), 0)
	disk.Put("uid-folder", nil, fs.ModeDir)
	disk.Put("uid-link", nil, fs.ModeSymlink)
	disk.Put("notes.txt", []byte("mine"), 0)
	disk.Put(".tmp-uid-cut", good[:10], 0)
	store := checkpoint.NewFiles(disk)
	loaded, err := store.Load(t.Context())
	if err != nil || len(loaded.Records) != 1 || loaded.Records[0].UID != "uid-good" {
		t.Fatalf("%v %+v", err, loaded.Records)
	}
	got := map[string]string{}
	for _, b := range loaded.Bad {
		got[b.Name] = strings.TrimSpace(string(b.Trouble) + " " + b.Aside)
		if b.Trouble != "foreign" && string(b.UID) != b.Name {
			t.Errorf("%s: UID %q", b.Name, b.UID)
		}
		if strings.Contains(b.String(), "kubernetes") {
			t.Errorf("%s quotes the content", b)
		}
	}
	want := map[string]string{"uid-newer": "newer format", "uid-folder": "foreign", "uid-link": "foreign", "notes.txt": "foreign"}
	for _, name := range []string{"uid-empty", "uid-short", "uid-text", "uid-other", "uid-huge"} {
		want[name] = "corrupt " + name + ".corrupt"
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}

	// A newer record is never replaced and never deleted.
	err = store.Write(t.Context(), []*checkpoint.Record{record("uid-newer", 1), record("uid-short", 1)})
	var bad *checkpoint.RecordError
	if !errors.As(err, &bad) || bad.UID != "uid-newer" || !errors.Is(err, checkpoint.ErrReadOnly) {
		t.Errorf("write over a newer record: %v", err)
	}
	if err := store.Delete(t.Context(), []types.UID{"uid-newer"}); !errors.Is(err, checkpoint.ErrReadOnly) {
		t.Errorf("delete a newer record: %v", err)
	}
	if data, _ := disk.Read("uid-newer", 1<<20); !bytes.Equal(data, newer(t)) {
		t.Error("the newer record was touched")
	}

	// Everything is durable, and the next start finds the new record and no new trouble.
	after := load(t, disk.LosePower(nil))
	if len(after.Records) != 2 || len(after.Bad) != 4 {
		t.Errorf("second load: %d records, bad %v", len(after.Records), after.Bad)
	}
}

// CK2: no single flipped bit yields another record, or a newer format.
func TestFlippedBitIsNoticed(t *testing.T) {
	good := file(t, record("uid-1", 1))
	for bit := range len(good) * 8 {
		flipped := bytes.Clone(good)
		flipped[bit/8] ^= 1 << (bit % 8)
		disk := &checkpointtest.Disk{}
		disk.Put("uid-1", flipped, 0)
		loaded := load(t, disk)
		if len(loaded.Records) != 0 || len(loaded.Bad) != 1 || loaded.Bad[0].Trouble != "corrupt" {
			t.Fatalf("bit %d: %+v", bit, loaded)
		}
	}
}

// TestInspectTouchesNothing: what an inspection finds stays as it is.
func TestInspectTouchesNothing(t *testing.T) {
	disk := &checkpointtest.Disk{}
	disk.Put("uid-empty", nil, 0)
	disk.Put(".tmp-uid-1", nil, 0)
	points := &checkpointtest.Points{FS: disk, Before: func(op checkpointtest.Op) error {
		t.Errorf("%+v", op)
		return nil
	}}
	loaded, err := checkpoint.NewFiles(points).Inspect(t.Context())
	if err != nil || len(loaded.Bad) != 1 || loaded.Bad[0].Aside != "" {
		t.Errorf("%v %+v", err, loaded)
	}
}

// CK2, the order that makes a record either old or new; one sync of
// the folder for all of a batch (CK10).
func TestRecordIsOldOrNew(t *testing.T) {
	var log []string
	points := &checkpointtest.Points{FS: &checkpointtest.Disk{}, Before: func(op checkpointtest.Op) error {
		log = append(log, fmt.Sprintf("%s %s %d", op.Kind, op.Name, op.Files))
		return nil
	}}
	if err := checkpoint.NewFiles(points).Write(t.Context(), []*checkpoint.Record{record("a", 1), record("b", 1)}); err != nil {
		t.Fatal(err)
	}
	want := []string{"write .tmp-a 0", "write .tmp-b 0", "sync .tmp-a 2", "rename a 0", "rename b 0", "syncdir  0"}
	if d := cmp.Diff(want, log); d != "" {
		t.Error(d)
	}
}

// crashed ends the goroutine of a store call at a point.
type crashed struct{}

// CK2, CK11, cleanup edge case 39. The power goes before or after
// each operation of a write over an older record, with any part of what was not
// synced on the disk: there is always the old record or the new one, whole, and the
// new one if the write had returned.
func TestPowerLossLeavesOldOrNew(t *testing.T) {
	kill := 0
	for done := false; !done; kill++ {
		for mask := range 8 {
			disk := &checkpointtest.Disk{}
			if err := checkpoint.NewFiles(disk).Write(t.Context(), []*checkpoint.Record{record("a", 1), record("b", 1)}); err != nil {
				t.Fatal(err)
			}
			done = dies(t, disk, kill)
			n := 0
			after := disk.LosePower(func(string) bool { n++; return mask&(1<<(n%3)) != 0 })
			loaded := load(t, after)
			versions := map[types.UID]uint64{}
			for _, r := range loaded.Records {
				versions[r.UID] = r.Version
			}
			for _, uid := range []types.UID{"a", "b"} {
				if v := versions[uid]; v != 1 && v != 2 || done && v != 2 {
					t.Errorf("killed at %d, mask %b: version %d of %s", kill, mask, v, uid)
				}
			}
			if len(loaded.Bad) != 0 {
				t.Errorf("killed at %d: %v", kill, loaded.Bad)
			}
		}
	}
	if kill < 12 {
		t.Errorf("only %d points", kill)
	}
}

// dies writes version 2 of two records and is killed at a point; it reports whether
// the write returned.
func dies(t *testing.T, disk *checkpointtest.Disk, kill int) (returned bool) {
	defer func() {
		if p := recover(); p != nil && p != (crashed{}) {
			panic(p)
		}
	}()
	point := 0
	hook := func(checkpointtest.Op) error {
		if point++; point > kill {
			panic(crashed{})
		}
		return nil
	}
	points := &checkpointtest.Points{FS: disk, Before: hook, After: hook}
	if err := checkpoint.NewFiles(points).Write(t.Context(), []*checkpoint.Record{record("a", 2), record("b", 2)}); err != nil {
		t.Fatal(err)
	}
	return true
}

// CK8. Whichever operation fails, the error names exactly the pods whose records are not safe, and
// no half-written file is left behind.
func TestFailedOperationNamesItsPods(t *testing.T) {
	for _, tc := range []struct {
		kind, name string
		unsafe     string
	}{
		{"write", ".tmp-a", "a"},
		{"sync", ".tmp-a", "a b"},
		{"rename", "b", "b"},
		{"syncdir", "", "a b"},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			disk := &checkpointtest.Disk{}
			points := &checkpointtest.Points{FS: disk, Before: func(op checkpointtest.Op) error {
				if op.Kind == tc.kind && op.Name == tc.name {
					return syscall.ENOSPC
				}
				return nil
			}}
			err := checkpoint.NewFiles(points).Write(t.Context(), []*checkpoint.Record{record("a", 1), record("b", 1)})
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("%v", err)
			}
			for _, uid := range []string{"a", "b"} {
				named := strings.Contains(err.Error(), "pod "+uid)
				if want := strings.Contains(tc.unsafe, uid); named != want {
					t.Errorf("%s named: %v, want %v: %v", uid, named, want, err)
				}
			}
			for _, name := range disk.Names() {
				if strings.HasPrefix(name, ".tmp-") {
					t.Errorf("left: %s", name)
				}
			}
		})
	}
}

// CK7: a removal whose folder could not be synced is not done: the next attempt syncs, although
// there is no file left to remove.
func TestUnsyncedRemovalIsRepeated(t *testing.T) {
	disk := &checkpointtest.Disk{}
	var broken error
	s := checkpoint.NewFiles(&checkpointtest.Points{FS: disk, Before: func(op checkpointtest.Op) error {
		if op.Kind == "syncdir" {
			return broken
		}
		return nil
	}})
	if err := s.Write(t.Context(), []*checkpoint.Record{record("a", 1)}); err != nil {
		t.Fatal(err)
	}
	broken = syscall.EIO
	for range 2 {
		if err := s.Delete(t.Context(), []types.UID{"a"}); !errors.Is(err, syscall.EIO) {
			t.Fatalf("while the folder cannot be synced: %v", err)
		}
	}
	broken = nil
	if err := s.Delete(t.Context(), []types.UID{"a"}); err != nil {
		t.Fatal(err)
	}
	if left := load(t, disk.LosePower(nil)).Records; len(left) != 0 {
		t.Error("the record is back after a loss of power")
	}
	syncs := 0
	s = checkpoint.NewFiles(&checkpointtest.Points{FS: disk, Before: func(checkpointtest.Op) error { syncs++; return nil }})
	if err := s.Delete(t.Context(), []types.UID{"a"}); err != nil || syncs != 1 {
		t.Errorf("removing nothing: %v, %d operations", err, syncs)
	}
}

// CK2, CK7: a damaged file that was set aside goes with the record of its pod, also in a later
// process.
func TestDamagedFileGoesWithItsRecord(t *testing.T) {
	for _, later := range []bool{false, true} {
		disk := &checkpointtest.Disk{}
		disk.Put("a", []byte("damaged"), 0)
		disk.Put("b", []byte("damaged"), 0)
		if later {
			load(t, disk)
		}
		s := checkpoint.NewFiles(disk)
		if _, err := s.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Write(t.Context(), []*checkpoint.Record{record("a", 1)}); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), []types.UID{"a"}); err != nil {
			t.Fatal(err)
		}
		if got := disk.LosePower(nil).Names(); !slices.Equal(got, []string{"b.corrupt"}) {
			t.Errorf("left (in a later process: %t): %q", later, got)
		}
	}
}

// status.md 9.11: a record stays below 256 KiB; messages go first, then the pod, and what matters
// stays. If the pod has to go, messages that fit without it stay whole.
func TestRecordStaysBelowItsLimit(t *testing.T) {
	long := func(n int) string { return strings.Repeat("m", n) + "end" }
	r := record("uid-1", 1)
	for i := range 40 {
		r.SetContainer(checkpoint.Container{Name: fmt.Sprint(i), Ends: []checkpoint.End{{ID: "x", ExitCode: 4, Message: long(12000)}}})
		r.Status.ContainerStatuses = append(r.Status.ContainerStatuses, v1.ContainerStatus{
			Name: fmt.Sprint(i), State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 4, Message: long(12000)}},
		})
	}
	data := file(t, r)
	if len(data) > checkpoint.MaxSize {
		t.Fatalf("%d bytes", len(data))
	}
	disk := &checkpointtest.Disk{}
	disk.Put("uid-1", data, 0)
	got := load(t, disk).Records[0]
	c, _ := got.Container("39")
	if c.Ends[0].ExitCode != 4 || !strings.HasSuffix(c.Ends[0].Message, "end") || got.Pod == nil {
		t.Errorf("kept: %.60v, pod %v", c, got.Pod != nil)
	}
	if text := r.Status.ContainerStatuses[0].State.Terminated.Message; len(text) != 12003 {
		t.Error("the record in memory was cut")
	}

	r.Pod.Annotations = map[string]string{"a": long(300 << 10)}
	disk.Put("uid-1", file(t, r), 0)
	got = load(t, disk).Records[0]
	if c, _ := got.Container("39"); got.Pod != nil || !strings.HasSuffix(c.Ends[0].Message, "end") {
		t.Errorf("a pod and messages over the limit: pod %v, %.60v", got.Pod != nil, c)
	}
	r = record("uid-1", 1)
	r.Pod.Annotations = map[string]string{"a": long(300 << 10)}
	r.Status.Message = "low on memory"
	r.Termination = &checkpoint.Termination{Decision: &checkpoint.Decision{Message: "low on memory"}}
	r.Containers[0].Ends[0].Message = "cannot open config"
	disk.Put("uid-1", file(t, r), 0)
	got = load(t, disk).Records[0]
	if got.Pod != nil || got.Version != 1 || got.Status.Message == "" || got.Termination.Decision.Message == "" || got.Containers[0].Ends[0].Message == "" {
		t.Errorf("a pod over the limit: pod %v, %+v, %+v, %+v", got.Pod != nil, got.Status, got.Termination.Decision, got.Containers[0].Ends[0])
	}
	r.Source = long(300 << 10)
	if err := checkpoint.NewFiles(disk).Write(t.Context(), []*checkpoint.Record{r}); err == nil {
		t.Error("a record over the limit was written")
	}
}
