package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestFolder(t *testing.T) { // F2, SRC3
	f := newFolder(t, FileOptions{})
	diff(t, "empty folder", []string{}, f.scan())
	f.write("b.yaml", manifestOf("web", "app:1"))
	f.write("a.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"db"},"spec":{"containers":[{"name":"c","image":"db:1"}]}}`)
	f.write(".hidden.yaml", manifestOf("hidden", "x"))
	f.write("web.yaml~", manifestOf("backup", "x"))
	diff(t, "YAML and JSON, nothing hidden", []string{"db-node-1 db:1", "web-node-1 app:1"}, f.scan())
	diff(t, "problems", []string{}, f.problems())
	f.remove("a.json")
	diff(t, "one removed", []string{"web-node-1 app:1"}, f.scan())
	f.remove("")
	diff(t, "a missing folder is empty", []string{}, f.scan())
	if h := f.file.Health(); h.LastError != nil || h.LastSuccess.IsZero() {
		t.Errorf("health %+v", h)
	}
}

// TestFolderThatGoesIsAProblem: SRC3, IN2. All pods stop because a folder is away, and something must say so. One that
// is not there yet, and a single file that goes, are meant.
func TestFolderThatGoesIsAProblem(t *testing.T) {
	f := newFolder(t, FileOptions{})
	listed := func(when string, want int) {
		t.Helper()
		f.scan()
		got := f.file.Unreadable()
		if len(got) != want || want == 1 && (!strings.Contains(got[0].Waits, f.path) || got[0].Since.IsZero() || got[0].Advice == "") {
			t.Errorf("%s: %v", when, got)
		}
	}
	f.remove("")
	listed("not there yet", 0)
	must(t, os.Mkdir(f.path, 0o700))
	f.write("a.yaml", manifestOf("web", "app:1"))
	listed("there", 0)
	f.remove("")
	listed("gone", 1)
	listed("still gone", 1)
	must(t, os.WriteFile(f.path, []byte(manifestOf("web", "app:1")), 0o600))
	listed("a file in its place", 0)
	f.remove("")
	listed("the file is gone", 0)
}

// TestUnusableFiles is edge case 14 and the cases of the issue about bad manifests:
// the error tells them apart and names the file, and no other file suffers (SI9).
func TestUnusableFiles(t *testing.T) {
	list := "apiVersion: v1\nkind: List\nitems: []\n"
	tests := []struct {
		name    string
		make    func(t *testing.T, path string)
		want    error
		message string
	}{
		{"malformed YAML", text("apiVersion: v1\nkind: Pod\n  metadata: [\n"), ErrMalformed, "yaml"},
		{"not YAML at all", text("\x7fELF\x02\x01\x01\x00\x00"), ErrMalformed, ""},
		{"empty file", text(""), ErrMalformed, "it is empty"},
		{"comments only", text("# later\n---\n"), ErrMalformed, "it is empty"},
		{"a list (F2)", text(list), ErrMalformed, "it is a list; one file holds one pod"},
		{"two documents (F2)", text(manifestOf("a", "x:1") + "---\n" + manifestOf("b", "x:1")), ErrMalformed, "more than one document"},
		{"another kind", text("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: x\n"), ErrOtherKind, `of kind "Deployment", version "apps/v1"`},
		{"a template of pods", text("apiVersion: v1\nkind: PodTemplate\nmetadata:\n  name: x\n"), ErrOtherKind, `of kind "PodTemplate", version "v1"`},
		{"letters swapped (DR8)", text("apiVersion: v1\nkind: Pdo\nmetadata:\n  name: x\n"), ErrMalformed, `of kind "Pdo", version "v1"`},
		{"a misspelt kind", text("apiVersion: v1\nkind: pod\nmetadata:\n  name: x\n"), ErrMalformed, `of kind "pod", version "v1"`},
		{"another version", text("apiVersion: v2\nkind: Pod\nmetadata:\n  name: x\n"), ErrMalformed, `of kind "Pod", version "v2"`},
		{"no kind", text("metadata:\n  name: x\n"), ErrMalformed, ""},
		{"wrong type of a field", text(strings.Replace(manifestOf("a", "x:1"), "name: main", "name: {}", 1)), ErrMalformed, ""},
		{
			"a bad quantity",
			text(manifestOf("a", "x:1") + "    resources: {limits: {cpu: 1, memory: 1Gb}}\n"), ErrMalformed, "spec.containers[0].resources.limits.memory: ",
		},
		{
			"a bad size of a volume",
			text(manifestOf("a", "x:1") + "  volumes: [{name: v, emptyDir: {sizeLimit: big}}]\n"), ErrMalformed, "spec.volumes[0].emptyDir.sizeLimit: ",
		},
		{"no containers (D8)", text("apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n"), ErrInvalid, "spec.containers: Required"},
		{"no name (D8)", text(strings.Replace(manifestOf("a", "x:1"), "name: a", "generateName: a", 1)), ErrInvalid, "metadata.name must be set"},
		{"a name that leaves the folder", text(manifestOf("../../etc/x", "x:1")), ErrInvalid, `must not contain "/"`},
		{"a name with two dots", text(manifestOf("a..b", "x:1")), ErrInvalid, `must not contain ".."`},
		{"a name with a control character", text(manifestOf(`"a\tb"`, "x:1")), ErrInvalid, "control characters"},
		{"11 MiB", func(t *testing.T, path string) { sparse(t, path, 11<<20) }, ErrTooLarge, "10 MiB"},
		{"a folder", func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }, ErrSkipped, "folder"},
		{"a FIFO", func(t *testing.T, path string) { must(t, syscall.Mkfifo(path, 0o600)) }, ErrSkipped, "FIFO"},
		{"a device", func(t *testing.T, path string) { must(t, os.Symlink("/dev/null", path)) }, ErrSkipped, "device"},
		{"a link to nothing", func(t *testing.T, path string) { must(t, os.Symlink("nowhere", path)) }, os.ErrNotExist, "link to nothing"},
		{"a link to itself", func(t *testing.T, path string) { must(t, os.Symlink(path, path)) }, syscall.ELOOP, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFolder(t, FileOptions{})
			f.write("other.yaml", manifestOf("other", "app:1"))
			path := filepath.Join(f.path, "bad.yaml")
			test.make(t, path)
			diff(t, "the others", []string{"other-node-1 app:1"}, f.scan())
			problems := f.file.Problems()
			if len(problems) != 1 || problems[0].Path != path || problems[0].Pod != nil {
				t.Fatalf("problems %+v", problems)
			}
			if err := problems[0].Err; !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.message) {
				t.Errorf("error %q, want %v and %q", err, test.want, test.message)
			}
			if e := f.events.take(); len(e) != 1 || !strings.Contains(e[0], path) {
				t.Errorf("events %q", e)
			}
			// A file that cannot be a manifest, or is one of another kind (IN11), hides no pod.
			if err := f.file.Undecided(); (err == nil) != (errors.Is(test.want, ErrSkipped) || errors.Is(test.want, ErrOtherKind)) || err != nil && !strings.Contains(err.Error(), path) {
				t.Errorf("undecided: %v", err)
			}
			f.scan()
			if e := f.events.take(); len(e) != 0 {
				t.Errorf("the same problem is told again: %q", e)
			}
		})
	}
}

func text(content string) func(*testing.T, string) {
	return func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte(content), 0o600)) }
}

func sparse(t *testing.T, path string, size int64) {
	must(t, os.WriteFile(path, []byte(manifestOf("big", "x:1")), 0o600))
	must(t, os.Truncate(path, size))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLinkToFile(t *testing.T) { // edge 14
	f := newFolder(t, FileOptions{})
	target := filepath.Join(t.TempDir(), "target")
	text(manifestOf("web", "app:1"))(t, target)
	must(t, os.Symlink(target, filepath.Join(f.path, "web.yaml")))
	diff(t, "a link to a file is that file", []string{"web-node-1 app:1"}, f.scan())
	text(manifestOf("web", "app:22"))(t, target)
	diff(t, "a change behind the link", []string{"web-node-1 app:22"}, f.scan())
}

// TestKeepLastGood is F3 and F8, edge 11: a file that can no longer be read keeps
// its pod, however it broke, until the file is removed.
func TestKeepLastGood(t *testing.T) {
	breaks := map[string]func(t *testing.T, path string){
		"half written": text(manifestOf("web", "app:1")[:40]),
		"emptied":      text(""),
		"invalid":      text(manifestOf("web/x", "app:1")),
		"too large":    func(t *testing.T, path string) { sparse(t, path, 11<<20) },
		"a FIFO now":   func(t *testing.T, path string) { must(t, os.Remove(path)); must(t, syscall.Mkfifo(path, 0o600)) },
		"a folder now": func(t *testing.T, path string) { must(t, os.Remove(path)); must(t, os.Mkdir(path, 0o700)) },
		"a dead link":  func(t *testing.T, path string) { must(t, os.Remove(path)); must(t, os.Symlink("nowhere", path)) },
	}
	for name, breakIt := range breaks {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t, FileOptions{})
			f.write("web.yaml", manifestOf("web", "app:1"))
			want := f.scan()
			breakIt(t, filepath.Join(f.path, "web.yaml"))
			diff(t, "broken", want, f.scan())
			diff(t, "still broken", want, f.scan())
			p := f.file.Problems()
			if len(p) != 1 || p[0].Pod == nil || p[0].Since.IsZero() {
				t.Errorf("problems %+v", p)
			}
			if e := f.events.take(); len(e) != 1 || !strings.Contains(e[0], "its last good pod stays") {
				t.Errorf("events %q", e)
			}
			f.remove("web.yaml")
			f.write("web.yaml", manifestOf("web", "app:2"))
			diff(t, "repaired", []string{"web-node-1 app:2"}, f.scan())
			diff(t, "no problem is left", []string{}, f.problems())
			breakIt(t, filepath.Join(f.path, "web.yaml"))
			f.remove("web.yaml")
			diff(t, "removed", []string{}, f.scan())
		})
		t.Run(name+", ForgetBroken", func(t *testing.T) {
			f := newFolder(t, FileOptions{ForgetBroken: true})
			f.write("web.yaml", manifestOf("web", "app:1"))
			f.scan()
			breakIt(t, filepath.Join(f.path, "web.yaml"))
			diff(t, "as the kubelet does", []string{}, f.scan())
		})
	}
}

// TestUndecided: only a manifest that was unreadable since the start may hide a pod.
func TestUndecided(t *testing.T) {
	good, bad := manifestOf("web", "app:1"), manifestOf("web", "app:1")[:40]
	unknown := strings.Replace(good, "spec:", "spec:\n  colour: red", 1)
	tests := []struct {
		name  string
		files []string // contents of web.yaml, one per scan; "-" removes it
		want  bool     // undecided in the end
	}{
		{"never there", []string{"-"}, false},
		{"good", []string{good}, false},
		{"broken at the start", []string{bad}, true},
		{"broken, and broken otherwise", []string{bad, ""}, true},
		{"repaired", []string{bad, good}, false},
		{"removed", []string{bad, "-"}, false},
		{"good, then broken: its last good pod stays", []string{good, bad}, false},
		{"repaired, then broken again", []string{bad, good, bad}, false},
		{"an unknown field does not hide the pod", []string{unknown}, false},
		{"removed while broken, and broken when it is back", []string{bad, "-", bad}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, forget := range []bool{false, true} {
				f := newFolder(t, FileOptions{ForgetBroken: forget})
				f.write("another.yaml", manifestOf("another", "app:1"))
				for _, content := range test.files {
					f.remove("web.yaml")
					if content != "-" {
						f.write("web.yaml", content)
					}
					f.scan()
				}
				if err := f.file.Undecided(); (err != nil) != (test.want && !forget) {
					t.Errorf("forget broken %v: undecided: %v", forget, err)
				}
			}
		})
	}
}

// TestUndecidedWhileWritten: a file that is being written at every look may hide a
// pod as a broken one does, whatever the policy for broken ones.
func TestUndecidedWhileWritten(t *testing.T) {
	pod := valid()
	for _, test := range []struct {
		name string
		m    manifest
		keep bool
		want bool
	}{
		{"never read", manifest{changing: true}, false, true},
		{"read before", manifest{changing: true, pod: pod}, true, false},
		{"broken before", manifest{changing: true, err: ErrMalformed}, true, true},
		{"broken before, and forgotten", manifest{changing: true, err: ErrMalformed}, false, false},
	} {
		if err := undecided([]*manifest{{pod: pod}, &test.m}, test.keep); (err != nil) != test.want {
			t.Errorf("%s: undecided: %v", test.name, err)
		}
	}
}

func TestSingleFile(t *testing.T) { // F1, F3, SRC3, edge 11
	path := filepath.Join(t.TempDir(), "web.yaml")
	source, err := NewFile(path+"/", "node", FileOptions{ForgetBroken: true})
	must(t, err)
	f := &folder{t: t, file: source}
	diff(t, "missing", []string{}, f.scan())
	text(manifestOf("web", "app:1"))(t, path)
	diff(t, "there", []string{"web-node app:1"}, f.scan())
	text("{")(t, path)
	diff(t, "a bad file changes nothing", []string{"web-node app:1"}, f.scan())
	must(t, os.Remove(path))
	diff(t, "removed", []string{}, f.scan())
	must(t, syscall.Mkfifo(path, 0o600))
	if _, _, err := source.scan(context.Background()); !errors.Is(err, ErrSkipped) {
		t.Errorf("a FIFO as the source: %v", err)
	}
	if h := source.Health(); !errors.Is(h.LastError, ErrSkipped) || h.LastSuccess.IsZero() || h.LastErrorAt.IsZero() {
		t.Errorf("health %+v", h)
	}
}

// TestUnreadableFolder: an error of the folder itself removes nothing (SRC2, SRC4).
func TestUnreadableFolder(t *testing.T) {
	parent := t.TempDir()
	path := filepath.Join(parent, "manifests")
	must(t, os.Mkdir(path, 0o700))
	text(manifestOf("web", "app:1"))(t, filepath.Join(path, "web.yaml"))
	text("{")(t, filepath.Join(path, "zz.yaml"))
	recorder := &events{}
	source, err := NewFile(path, "node", FileOptions{Recorder: recorder})
	must(t, err)
	f := &folder{t: t, file: source, path: path}
	diff(t, "readable", []string{"web-node app:1"}, f.scan())
	// A path below a file leads nowhere, but that is not the same as a missing
	// folder.
	source.path = filepath.Join(path, "web.yaml", "x")
	if set, _, err := source.scan(context.Background()); !errors.Is(err, syscall.ENOTDIR) || set != nil {
		t.Errorf("set %v, error %v", set, err)
	}
	problems := source.Problems()
	if len(problems) != 2 || !errors.Is(problems[0].Err, syscall.ENOTDIR) {
		t.Errorf("the problem of the folder beside that of a manifest: %+v", problems)
	}
	if e := recorder.take(); len(e) != 2 || !strings.Contains(e[1], "the pods that are known stay") {
		t.Errorf("events %q", e)
	}
	source.path = path
	diff(t, "readable again", []string{"web-node app:1"}, f.scan())
	if h := source.Health(); h.LastError != nil || len(source.Problems()) != 1 {
		t.Errorf("health %+v, problems %v", h, source.Problems())
	}
}

// TestLinkToNothing (SRC4): a source whose path is a link to what is not there, such as a file system that
// is not mounted, keeps its pods; one whose path is gone has none (SRC3).
func TestLinkToNothing(t *testing.T) {
	target := t.TempDir()
	path := filepath.Join(t.TempDir(), "manifests")
	must(t, os.Symlink(target, path))
	source, err := NewFile(path, "node", FileOptions{})
	must(t, err)
	f := &folder{t: t, file: source, path: path}
	f.write("web.yaml", manifestOf("web", "app:1"))
	diff(t, "mounted", []string{"web-node app:1"}, f.scan())
	must(t, os.Rename(target, target+".away"))
	if set, _, err := source.scan(context.Background()); err == nil || set != nil || !strings.Contains(source.Health().LastError.Error(), "link to nothing") {
		t.Errorf("set %v, error %v", set, err)
	}
	must(t, os.Rename(target+".away", target))
	diff(t, "mounted again", []string{"web-node app:1"}, f.scan())
	must(t, os.Remove(path))
	diff(t, "gone", []string{}, f.scan())
}

// A file that grows beyond the limit is one problem, not one at each size.
func TestTooLargeIsToldOnce(t *testing.T) {
	f := newFolder(t, FileOptions{})
	for n := range int64(5) {
		sparse(t, filepath.Join(f.path, "large.yaml"), maxManifestSize+1+n)
		f.scan()
	}
	if e := f.events.take(); len(e) != 1 || !strings.Contains(e[0], "more than 10 MiB") {
		t.Errorf("events %q", e)
	}
}

func TestEmptiedFolder(t *testing.T) { // F6, edge 12
	f := newFolder(t, FileOptions{})
	f.write("a.yaml", manifestOf("a", "x:1"))
	f.write("b.yaml", manifestOf("b", "x:1"))
	f.scan()
	f.remove("a.yaml")
	f.remove("b.yaml")
	diff(t, "emptied", []string{}, f.scan())
	f.write("c.yaml", manifestOf("c", "x:1"))
	diff(t, "only the new one", []string{"c-node-1 x:1"}, f.scan())
}

func TestDuplicateNames(t *testing.T) { // F5, edge 13
	f := newFolder(t, FileOptions{})
	f.write("1.yaml", manifestOf("web", "app:1"))
	f.write("2.yaml", manifestOf("web", "app:2"))
	diff(t, "the later wins", []string{"web-node-1 app:2"}, f.scan())
	diff(t, "problems", []string{"1.yaml: another pod has the same name: pod default/web-node-1 is taken from 2.yaml"}, f.problems())
	if !errors.Is(f.file.Problems()[0].Err, ErrDuplicate) {
		t.Error("not an ErrDuplicate")
	}
	f.remove("2.yaml")
	diff(t, "the other stays when the winner goes", []string{"web-node-1 app:1"}, f.scan())
	f.write("2.yaml", manifestOf("web", "app:2"))
	f.scan()
	f.remove("1.yaml")
	diff(t, "the winner stays when the other goes", []string{"web-node-1 app:2"}, f.scan())
	diff(t, "no problem is left", []string{}, f.problems())

	f.write("3.yaml", strings.Replace(manifestOf("one", "x:1"), "name: one\n", "name: one\n  uid: u1\n", 1))
	f.write("4.yaml", strings.Replace(manifestOf("two", "y:1"), "name: two\n", "name: two\n  uid: u1\n", 1))
	diff(t, "PS6: of one UID twice the loop knows whose it is", []string{"one-node-1 x:1", "two-node-1 y:1", "web-node-1 app:2"}, f.scan())
}

// TestRepeatedKeyIsTold: what is told of a key that is given twice is what becomes of the pod.
func TestRepeatedKeyIsTold(t *testing.T) {
	f := newFolder(t, FileOptions{})
	f.write("web.yaml", manifestOf("web", "app:1")+"  restartPolicy: Never\n  restartPolicy: OnFailure\n")
	f.scan()
	if e := f.events.take(); len(e) != 1 || !strings.Contains(e[0], `key "restartPolicy" already set`) || !strings.HasSuffix(e[0], "with the last value of a repeated one") {
		t.Errorf("events %q", e)
	}
	if p := f.file.Problems(); len(p) != 1 || p[0].Pod == nil || p[0].Pod.Spec.RestartPolicy != v1.RestartPolicyOnFailure {
		t.Errorf("problems %+v", p)
	}
}

func TestUnknownFieldIsAWarning(t *testing.T) {
	f := newFolder(t, FileOptions{})
	f.write("web.yaml", manifestOf("web", "app:1")+"  replicas: 3\n  restartPolice: Never\n")
	diff(t, "the pod runs", []string{"web-node-1 app:1"}, f.scan())
	p := f.file.Problems()
	if len(p) != 1 || p[0].Pod == nil || !errors.Is(p[0].Err, ErrUnknownField) ||
		!strings.Contains(p[0].Err.Error(), "spec.replicas") || !strings.Contains(p[0].Err.Error(), "spec.restartPolice") {
		t.Errorf("problems %+v", p)
	}
	if e := f.events.take(); len(e) != 1 || !strings.HasPrefix(e[0], "Warning UnknownField: ") || !strings.HasSuffix(e[0], "the pod runs without unknown fields, and with the last value of a repeated one") {
		t.Errorf("events %q", e)
	}
}

// TestUnknownFieldHidesNothing: a manifest that is refused is listed, also if it has an unknown field,
// and the problem names that field, which may be the misspelt one.
func TestUnknownFieldHidesNothing(t *testing.T) {
	f := newFolder(t, FileOptions{})
	f.write("1.yaml", manifestOf("web", "app:1")+"  replicas: 3\n")
	f.write("2.yaml", manifestOf("web", "app:2"))
	f.write("3.yaml", strings.Replace(manifestOf("typo", "app:1"), "containers", "container", 1))
	f.write("4.yaml", manifestOf("kept", "app:1"))
	f.scan()
	f.write("4.yaml", manifestOf("kept", "app:2")+"  hostNetwork: true\n  hostNetwork: false\n  terminationGracePeriodSeconds: soon\n")
	f.write("5.yaml", manifestOf("runs", "app:1")+"  replicas: 3\n")
	diff(t, "pods", []string{"kept-node-1 app:1", "runs-node-1 app:1", "web-node-1 app:2"}, slices.Sorted(slices.Values(f.scan())))
	var listed []string
	for _, p := range f.file.Unreadable() {
		listed = append(listed, p.Name)
		if p.Name == "4.yaml" && (!strings.Contains(p.Cause, "hostNetwork") || !strings.Contains(p.Cause, "terminationGracePeriodSeconds")) {
			t.Errorf("cause %q", p.Cause)
		}
		if p.Name == "3.yaml" && (!strings.Contains(p.Cause, `"spec.container"`) || !strings.Contains(p.Cause, "spec.containers: Required")) {
			t.Errorf("cause %q", p.Cause)
		}
	}
	diff(t, "listed", []string{"1.yaml", "3.yaml", "4.yaml"}, listed)
	for _, e := range f.events.take() {
		if strings.HasPrefix(e, "Warning UnknownField") != strings.Contains(e, "5.yaml") {
			t.Errorf("event %q", e)
		}
	}
}

// TestUnchangedFilesAreNotReadAgain: a poll of an idle folder reads no file whose
// timestamps prove that it has not changed.
func TestUnchangedFilesAreNotReadAgain(t *testing.T) {
	f := newFolder(t, FileOptions{})
	f.write("web.yaml", manifestOf("web", "app:1"))
	path := filepath.Join(f.path, "web.yaml")
	past := f.file.options.Clock.Now().Add(-2 * trustAge)
	must(t, os.Chtimes(path, past, past))
	f.scan()
	pod := f.file.files[path].pod
	f.scan()
	if f.file.files[path].pod != pod {
		t.Error("an old, unchanged file was read again")
	}
	must(t, os.Chtimes(path, past, past.Add(1)))
	f.scan()
	if f.file.files[path].pod == pod {
		t.Error("a file with a new time stamp was not read again")
	}
	now := f.file.options.Clock.Now()
	must(t, os.Chtimes(path, now, now))
	f.scan()
	pod = f.file.files[path].pod
	f.scan()
	if f.file.files[path].pod == pod {
		t.Error("a file changed just now may have changed again within the same time stamp")
	}
}

// TestIdentity is D1 to D7 and D9, edge 9 and edge 10.
func TestIdentity(t *testing.T) {
	d, err := newDecoder("Node-1", false)
	must(t, err)
	decode := func(content, origin string) *v1.Pod {
		t.Helper()
		p, err := d.decode([]byte(content), origin)
		must(t, err)
		return p
	}
	p := decode(manifestOf("web", "app:1"), "file:/etc/web.yaml")
	// The UID is part of the contract with running containers: another value
	// after an upgrade restarts every static pod of every node.
	diff(t, "D1 UID", "39cb2a78142081c006822be419734f2e", string(p.UID))
	diff(t, "D2 name", "web-node-1", p.Name)
	diff(t, "D3 namespace", "default", p.Namespace)
	diff(t, "D4 node", "Node-1", p.Spec.NodeName)
	diff(t, "D5 hash", map[string]string{"kubernetes.io/config.hash": string(p.UID)}, p.Annotations)
	diff(t, "D6 toleration", []v1.Toleration{{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}}, p.Spec.Tolerations)
	diff(t, "D7 phase", v1.PodPending, p.Status.Phase)

	same := map[string]string{
		"comments and order": "# c\nkind: Pod\nspec:\n  containers: [{image: \"app:1\", name: main}]\nmetadata: {name: web}\napiVersion: v1\n",
		"JSON":               `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","creationTimestamp":null},"spec":{"containers":[{"name":"main","image":"app:1"}]}}`,
		"a status":           manifestOf("web", "app:1") + "status:\n  phase: Failed\n",
	}
	for name, content := range same {
		if got := decode(content, "file:/etc/web.yaml"); got.UID != p.UID || got.Status.Phase != v1.PodPending {
			t.Errorf("%s: UID %s, phase %s; want %s, Pending", name, got.UID, got.Status.Phase, p.UID)
		}
	}
	if decode(manifestOf("web", "app:2"), "file:/etc/web.yaml").UID == p.UID {
		t.Error("D1: other content, same UID")
	}
	if decode(manifestOf("web", "app:1"), "file:/etc/other.yaml").UID == p.UID {
		t.Error("D1: other path, same UID")
	}
	other, err := newDecoder("node-2", false)
	must(t, err)
	if q, err := other.decode([]byte(manifestOf("web", "app:1")), "file:/etc/web.yaml"); err != nil || q.UID == p.UID {
		t.Errorf("D1: other node, same UID (%v)", err)
	}

	fixed := strings.Replace(manifestOf("web", "app:1"), "name: web\n", "name: web\n  uid: Fixed-1\n  namespace: kube-system\n", 1)
	a, b := decode(fixed, "file:/x"), decode(strings.Replace(fixed, "app:1", "app:2", 1), "file:/y")
	for _, p := range []*v1.Pod{a, b} {
		diff(t, "D9 UID stays", "Fixed-1", string(p.UID))
		diff(t, "D9 hash stays", "Fixed-1", p.Annotations["kubernetes.io/config.hash"])
		diff(t, "D3 a given namespace stays", "kube-system", p.Namespace)
	}
}
