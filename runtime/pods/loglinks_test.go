package pods_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// linking makes a world with a folder for links.
func linking(t *testing.T) *world {
	dir := filepath.Join(t.TempDir(), "links")
	return logging(t, func(o *pods.Options) { o.LinkDir = dir })
}

func (w *world) links() []string {
	w.t.Helper()
	entries, err := os.ReadDir(w.opts.LinkDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// spec/runtime.md 18.2, 19.3: a started container has a link to its log, under a
// name that fits, and the link goes with the container.
func TestLogLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := linking(t)
		pod := newPod()
		w.syncAll(pod)
		c := w.read(pod).Container("app")
		name := "web_default_app-" + c.ID.ID + ".log"
		if got := w.links(); !slices.Equal(got, []string{name}) {
			t.Fatalf("18.2: links %v", got)
		}
		if target, err := os.Readlink(filepath.Join(w.opts.LinkDir, name)); err != nil || target != c.LogPath {
			t.Errorf("18.2: it leads to %s, err %v", target, err)
		}
		long := newPod(func(p *v1.Pod) {
			p.Name, p.UID, p.Namespace = strings.Repeat("n", 150), "uid-2", strings.Repeat("s", 50)
			p.Spec.Containers[0].Name = strings.Repeat("c", 63)
		})
		w.syncAll(long)
		want := (long.Name + "_" + long.Namespace + "_" + long.Spec.Containers[0].Name)[:251] + ".log"
		if got := w.links(); len(got) != 2 || got[0] != want {
			t.Errorf("18.2: links %v, want one of 255 bytes", got)
		}
		for _, p := range []*v1.Pod{pod, long} {
			if err := w.m.KillPod(t.Context(), p, nil, nil); err != nil {
				t.Fatal(err)
			}
			if err := w.m.RemovePod(t.Context(), p.UID); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.links(); len(got) != 0 {
			t.Errorf("19.3: links %v remain", got)
		}
	})
}

// spec/runtime.md 18.2: no link to a log that does not exist, or where something
// else has the name; the container runs all the same. By default there are no links.
func TestNoLogLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := linking(t)
		w.fake = fake.New(fake.Options{}) // writes no logs
		w.restart()
		pod := newPod()
		w.syncAll(pod)
		if got := w.links(); len(got) != 0 {
			t.Errorf("18.2: links %v", got)
		}
		w.wantState(pod, "app:running")
		if err := os.MkdirAll(filepath.Dir(w.opts.LinkDir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(w.opts.LinkDir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w.fake = fake.New(fake.Options{WriteLogs: true})
		w.restart()
		other := newPod(func(p *v1.Pod) { p.UID = "uid-2" })
		w.syncAll(other)
		w.wantState(other, "app:running")

		if _, err := pods.New(w.fake, w.fake, pods.Options{RootDir: "/r", LinkDir: "relative"}); err == nil {
			t.Error("a relative LinkDir is accepted")
		}
	})
}

// spec/cleanup.md LG2, spec/runtime.md 19.5, edge cases 25: links that lead nowhere
// go, but not while the container may be having its log rotated.
func TestDanglingLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := linking(t)
		pod := newPod(func(p *v1.Pod) {
			p.Spec.RestartPolicy = v1.RestartPolicyNever
			p.Spec.Containers = append(p.Spec.Containers, container("dead"), container("odd"))
		})
		w.syncAll(pod)
		if err := w.fake.Exit(pod.UID, "dead", fake.Exit{}); err != nil {
			t.Fatal(err)
		}
		status := w.read(pod)
		if err := w.fake.SetUnknown(status.Container("odd").ID.ID); err != nil {
			t.Fatal(err)
		}
		for _, c := range status.Containers {
			if err := os.Rename(c.LogPath, c.LogPath+".20260101-000000"); err != nil {
				t.Fatal(err)
			}
		}
		nowhere := filepath.Join(w.opts.LogDir, "nowhere")
		outside := filepath.Join(t.TempDir(), "outside")
		file := filepath.Join(w.opts.LinkDir, "file.log")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for name, target := range map[string]string{
			"gone_default_app-0123456789abcdef.log": nowhere, // unknown to the runtime
			"noid_default_app-12345.log":            nowhere,
			"-.log":                                 nowhere,
			"theirs_default_app-0123456789.log":     outside,
			"relative_default_app-0123456789.log":   "../nowhere",
			"up_default_app-0123456789.log":         filepath.Join(w.opts.LogDir) + "/../nowhere",
			"other-name":                            nowhere,
		} {
			if err := os.Symlink(target, filepath.Join(w.opts.LinkDir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := collect(t.Context(), w.m, pods.GCPolicy{SourcesReady: true}); err != nil {
			t.Fatal(err)
		}
		link := func(container string) string {
			return "web_default_" + container + "-" + status.Container(container).ID.ID + ".log"
		}
		want := []string{
			link("app"), link("odd"), "file.log", "theirs_default_app-0123456789.log", "relative_default_app-0123456789.log",
			"up_default_app-0123456789.log", "other-name",
		}
		slices.Sort(want)
		if got := w.links(); !slices.Equal(got, want) {
			t.Errorf("LG2, edge 25:\n got %v\nwant %v", got, want)
		}

		// With their logs there again links without a container stay too.
		if err := os.WriteFile(nowhere, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(nowhere, filepath.Join(w.opts.LinkDir, "gone.log")); err != nil {
			t.Fatal(err)
		}
		if _, err := collect(t.Context(), w.m, pods.GCPolicy{SourcesReady: true}); err != nil || !slices.Contains(w.links(), "gone.log") {
			t.Errorf("LG2: a link that leads somewhere is removed; err %v", err)
		}

		// ND11: a list that fails shows nothing of what exists.
		if err := os.Remove(nowhere); err != nil {
			t.Fatal(err)
		}
		defer w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.ListContainers}, Effect: fake.Effect{Err: errors.New("busy")}})()
		if _, err := collect(t.Context(), w.m, pods.GCPolicy{SourcesReady: true}); err == nil || !slices.Contains(w.links(), "gone.log") {
			t.Errorf("ND11: judged by a list that failed; err %v", err)
		}
	})
}

// spec/cleanup.md LG1, edge case 24: whose a log directory is.
func TestLogDirs(t *testing.T) {
	w := newWorld(t, nil)
	static, random := "0123456789abcdef0123456789abcdef", "01234567-89ab-cdef-0123-456789abcdef"
	for name, uid := range map[string]string{
		"default_web_uid-1":       "uid-1",
		"default_my_web_uid-2":    "uid-2",
		static:                    static,
		random:                    random,
		"archive":                 "",
		"default_web_":            "",
		"a_b_..":                  "",
		"default_web_uid\n":       "",
		strings.ToUpper(random):   "",
		"default_web_uid-3/inner": "uid-3",
	} {
		if err := os.MkdirAll(filepath.Join(w.opts.LogDir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		got, err := w.m.LogDirs()
		if err != nil || slices.Contains(got, types.UID(uid)) != (uid != "") {
			t.Errorf("LG1: %q among them, there are %q, err %v", name, got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.opts.LogDir, "default_web_file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []types.UID{types.UID(static), types.UID(random), "uid-1", "uid-2", "uid-3", "file", "archive", "..", ""} {
		if err := w.m.RemoveLogs(t.Context(), uid); err != nil {
			t.Errorf("edge 24: %q: %v", uid, err)
		}
	}
	entries, err := os.ReadDir(w.opts.LogDir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{strings.ToUpper(random), "a_b_..", "archive", "default_web_", "default_web_file", "default_web_uid\n"}
	if slices.Sort(want); !slices.Equal(left, want) {
		t.Errorf("edge 24: left %q, want %q", left, want)
	}
}

// spec/cleanup.md LG1: a pod's UID has no underscore: its logs would be taken for those of another pod.
func TestUIDWithUnderscoreIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		r := w.sync(newPod(func(p *v1.Pod) { p.UID = "blue_uid-1" }))
		if r.Err == nil || !strings.Contains(r.Err.Error(), "underscore") || w.fake.CallCount(fake.RunPodSandbox) != 0 {
			t.Errorf("err %v, %d sandboxes", r.Err, w.fake.CallCount(fake.RunPodSandbox))
		}
	})
}

// Whatever stands in the folders for logs and links and whatever a pod is called at
// the runtime, nothing outside them is made, changed or removed, and nothing outside
// is read.
func TestHostileLogFolders(t *testing.T) {
	base := t.TempDir()
	n := 0
	word := rapid.OneOf(rapid.SampledFrom([]string{
		"default_web_uid-1", "uid-1", "app", "0.log", "0.log.20260101-000000", "0.log.20260101-000000.tmp", "..", "a_..", "_", "a_\n",
		"web_default_app-0123456789.log", "0123456789abcdef0123456789abcdef", "../outside", "/",
	}), rapid.StringMatching(`[a_./\x00]{0,6}`))
	rapid.Check(t, func(r *rapid.T) {
		n++
		top := filepath.Join(base, fmt.Sprint(n))
		logs, links, outside := filepath.Join(top, "logs"), filepath.Join(top, "links"), filepath.Join(top, "outside")
		secret := filepath.Join(outside, "0.log")
		for _, dir := range []string{logs, links, outside} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(secret, []byte("2026-01-01T00:00:00Z stdout F secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 8).Draw(r, "entries") {
			path := filepath.Join(rapid.SampledFrom([]string{logs, links}).Draw(r, "folder"), filepath.Clean("/"+strings.ReplaceAll(word.Draw(r, "entry")+"/"+word.Draw(r, "inner"), "\x00", "")))
			_ = os.MkdirAll(filepath.Dir(path), 0o755)
			switch rapid.IntRange(0, 2).Draw(r, "kind") {
			case 0:
				_ = os.Symlink(rapid.SampledFrom([]string{outside, secret, "../outside", logs, links}).Draw(r, "target"), path)
			case 1:
				_ = os.WriteFile(path, []byte("x"), 0o600)
			default:
				_ = os.Mkdir(path, 0o755)
			}
		}
		before := tree(t, outside)
		w := &world{t: t, fake: fake.New(fake.Options{WriteLogs: true}), events: &events{}}
		w.opts = pods.Options{RootDir: filepath.Join(top, "root"), LogDir: logs, LinkDir: links}
		w.restart()
		status := &runtime.PodStatus{
			UID: types.UID(word.Draw(r, "uid")), Name: word.Draw(r, "name"), Namespace: word.Draw(r, "namespace"),
			Containers: []*runtime.ContainerStatus{{Name: word.Draw(r, "container"), State: runtime.Running, ID: runtime.ContainerID{ID: "c"}}},
		}
		status.Containers[0].LogPath = filepath.Join(logs, word.Draw(r, "log"), status.Containers[0].Name, "0.log")
		rotator := w.rotatorOf(pods.LogRotation{MaxSize: 1}, status)
		_ = rotator.Rotate(t.Context())
		uids, _ := w.m.LogDirs()
		for _, uid := range append(uids, status.UID, "..") {
			_ = w.m.RemoveLogs(t.Context(), uid)
		}
		_, _ = collect(t.Context(), w.m, pods.GCPolicy{SourcesReady: true})
		exited := *status.Containers[0]
		exited.State, exited.ExitCode = runtime.Exited, 1
		exited.Annotations = map[string]string{meta.AnnotationTerminationPolicy: string(v1.TerminationMessageFallbackToLogsOnError)}
		if text := w.m.TerminationMessage(&exited); strings.Contains(text, "secret") {
			r.Fatalf("read from outside: %q", text)
		}
		pod := newPod()
		for range 2 {
			_ = w.m.SyncPod(t.Context(), pod, w.read(pod))
		}
		if after := tree(t, outside); !slices.Equal(before, after) {
			r.Fatalf("outside there was %q, now there is %q", before, after)
		}
		around, err := os.ReadDir(top)
		if err != nil || slices.ContainsFunc(around, func(e os.DirEntry) bool {
			return !slices.Contains([]string{"logs", "links", "outside", "root"}, e.Name())
		}) {
			r.Fatalf("around there are %v, err %v", around, err)
		}
	})
}

// tree lists everything below dir with the content of files.
func tree(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			out = append(out, path)
			return err
		}
		text, err := os.ReadFile(path)
		out = append(out, path+": "+string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
