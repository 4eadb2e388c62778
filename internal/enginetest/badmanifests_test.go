package enginetest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// fed is an engine whose pods come from a folder of manifests.
type fed struct {
	*rig
	folder  string
	file    *source.File
	counted *counters
}

func newFed(t *testing.T, rt *fake.Runtime, root, folder string, options ...func(*source.FileOptions)) *fed {
	t.Helper()
	f := &fed{folder: folder, counted: &counters{}}
	f.rig = newRig(t, rt, root, func(c *podwright.Config) {
		o := source.FileOptions{PollOnly: true, Period: time.Second, Recorder: c.Observe.Events, Meter: f.counted.Meter("")}
		for _, option := range options {
			option(&o)
		}
		var err error
		if f.file, err = source.NewFile(folder, "n1", o); err != nil {
			t.Fatal(err)
		}
		c.Sources, c.Observe.MeterProvider = []syncloop.Source{f.file}, f.counted
	})
	f.start()
	return f
}

// path returns the path of a manifest.
func (f *fed) path(name string) string { return filepath.Join(f.folder, name) }

// manifestOf is the manifest of a pod; the lines go into its metadata.
func manifestOf(name, image string, metadata ...string) string {
	var more strings.Builder
	for _, line := range metadata {
		more.WriteString("  " + line + "\n")
	}
	return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name + "\n" + more.String() +
		"spec:\n  terminationGracePeriodSeconds: 5\n  containers:\n  - name: main\n    image: " + image + "\n"
}

// fixed is the manifest of a pod with its own UID, which a test can recognize.
func fixed(name, image string) string { return manifestOf(name, image, "uid: uid-"+name) }

// The functions below make files from which no pod can be read.
func text(content string) func(path string) error {
	return func(path string) error {
		return errors.Join(os.RemoveAll(path), writeManifest(path, content))
	}
}

// writeManifest writes a file with the current virtual time as its date. The kernel's own time lies
// in the future of a bubble, and a source reads a file with a future date again in every scan.
func writeManifest(path, content string) error {
	now := time.Now()
	return errors.Join(os.WriteFile(path, []byte(content), 0o600), os.Chtimes(path, now, now))
}

func fifo(path string) error {
	return errors.Join(os.RemoveAll(path), syscall.Mkfifo(path, 0o600))
}

func subFolder(path string) error { return errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700)) }

func link(target string) func(path string) error {
	return func(path string) error { return errors.Join(os.RemoveAll(path), os.Symlink(target, path)) }
}

// ring makes two links to each other.
func ring(path string) error {
	other := filepath.Join(filepath.Dir(path), ".ring")
	return errors.Join(os.RemoveAll(path), os.Symlink(other, path), os.Symlink(path, other))
}

func huge(path string) error {
	return text(fixed("huge", "app:1") + "#" + strings.Repeat("x", 11<<20))(path)
}

// bomb is a manifest of 200 KiB whose arguments grow to 190 MiB once its aliases are replaced.
func bomb() string {
	return fixed("bomb", "app:1") + "    args: [&a \"" + strings.Repeat("x", 195<<10) + "\"" + strings.Repeat(", *a", 1000) + "]\n"
}

// unreadable lists invalid manifests, with the reason of the event and words of its text.
var unreadable = []struct {
	name         string
	make         func(path string) error
	reason, says string
	err          error
}{
	{"a FIFO", fifo, "ManifestSkipped", "not a regular file but a FIFO", source.ErrSkipped},
	{"a folder", subFolder, "ManifestSkipped", "not a regular file but a folder", source.ErrSkipped},
	{"a link to a device", link("/dev/zero"), "ManifestSkipped", "not a regular file but a device", source.ErrSkipped},
	{"a link to its own folder", link("."), "ManifestSkipped", "not a regular file but a folder", source.ErrSkipped},
	{"a link to itself", link("web.yaml"), "ManifestUnreadable", "too many levels of symbolic links", syscall.ELOOP},
	{"links in a ring", ring, "ManifestUnreadable", "too many levels of symbolic links", syscall.ELOOP},
	{"a link to nothing", link("nowhere"), "ManifestUnreadable", "it is a link to nothing", os.ErrNotExist},
	{"11 MiB", huge, "ManifestUnreadable", "manifest is too large: more than 10 MiB", source.ErrTooLarge},
	{"an alias bomb", text(bomb()), "ManifestUnreadable", "it has more than 10 MiB once its aliases are replaced by their content", source.ErrTooLarge},
	{"half written", text(fixed("web", "app:1")[:60]), "FailedValidation", "spec.containers: Required value", source.ErrInvalid},
	{"half written JSON", text(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"conta`), "ManifestUnreadable", "not a pod manifest", source.ErrMalformed},
	{"empty", text(""), "ManifestUnreadable", "not a pod manifest: it is empty", source.ErrMalformed},
	{"binary", text("\x7fELF\x02\x01\x01\x00\x00\xff"), "ManifestUnreadable", "not a pod manifest", source.ErrMalformed},
	{"a list", text("apiVersion: v1\nkind: PodList\nitems: []\n"), "ManifestUnreadable", "it is a list; one file holds one pod", source.ErrMalformed},
	{"two documents", text(fixed("x", "app:1") + "---\n" + fixed("y", "app:1")), "ManifestUnreadable", "more than one document", source.ErrMalformed},
	{"a name that leaves the folder", text(manifestOf("../../x", "app:1")), "FailedValidation", `must not contain "/"`, source.ErrInvalid},
	{"a UID that leaves the folder", text(manifestOf("x", "app:1", "uid: ../../x")), "FailedValidation", "metadata.uid", source.ErrInvalid},
	{"a reference to an API object", text(strings.Replace(manifestOf("x", "app:1"), "spec:\n", "spec:\n  serviceAccountName: admin\n", 1)), "FailedValidation", "serviceAccountName", source.ErrInvalid},
}

// runsOn checks that the same container of a pod has been running all the time.
func (f *fed) runsOn(uid types.UID) {
	f.t.Helper()
	if facts := f.runtime.Facts(uid, "main"); facts.Started != 1 || facts.Running != 1 {
		f.t.Errorf("%s was started %d times, %d run: %s", uid, facts.Started, facts.Running, f.explain(uid))
	}
}

// only checks that sandboxes were made for exactly these pods.
func (f *fed) only(uids ...types.UID) {
	f.t.Helper()
	for _, call := range f.runtime.Calls(fake.Match{Method: fake.RunPodSandbox}) {
		if !slices.Contains(uids, call.PodUID) {
			f.t.Errorf("a sandbox was made for %s of pod %s", call.PodUID, call.Pod)
		}
	}
}

// toldOnce checks that a problem with a manifest causes one event and one count.
func (f *fed) toldOnce(object, reason string, words ...string) {
	f.t.Helper()
	said := f.events.said(object + " " + reason)
	if len(said) != 1 {
		f.t.Fatalf("events %q, want one %s of %s", f.events.seen, reason, object)
	}
	for _, w := range words {
		if !strings.Contains(said[0], w) {
			f.t.Errorf("the event %q says nothing of %q", said[0], w)
		}
	}
	if n := f.counted.get("podwright_syncloop_manifest_problems_total", "reason="+reason+",source=file"); n != 1 {
		f.t.Errorf("counted %d times", n)
	}
}

// change changes a manifest while no agent looks at the folder.
func (f *fed) change(name string, change func(path string) error) {
	f.t.Helper()
	synctest.Wait()
	if err := change(f.path(name)); err != nil {
		f.t.Fatal(err)
	}
}

// TestBadManifestHarmsNoOther: F2, D8, SRC4, SI9, edge case 14. An invalid file starts nothing, is
// reported once with its path and what is wrong, and harms no other pod: running pods continue, and
// later ones start.
func TestBadManifestHarmsNoOther(t *testing.T) {
	t.Parallel()
	for _, tc := range unreadable {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFed(t, fake.New(fake.Options{}), t.TempDir(), t.TempDir())
				f.change("good.yaml", text(fixed("good", "app:1")))
				f.phase("uid-good", v1.PodRunning, 10*time.Second)
				f.change("web.yaml", tc.make)
				<-time.After(2 * time.Minute)
				f.toldOnce("n1", tc.reason, "manifest "+f.path("web.yaml"), tc.says, "no pod is started from it")
				if p := f.file.Problems(); len(p) != 1 || p[0].Path != f.path("web.yaml") || p[0].Pod != nil || !errors.Is(p[0].Err, tc.err) {
					t.Errorf("problems %+v", p)
				}
				if err := f.engine.Healthy(); err != nil {
					t.Errorf("one bad manifest makes the engine ill: %v", err)
				}
				f.change("z-next.yaml", text(fixed("next", "app:1")))
				f.phase("uid-next", v1.PodRunning, 10*time.Second)
				f.change("web.yaml", os.RemoveAll)
				f.within(10*time.Second, "no problem", func() error { return problemsOf(f.file) })
				f.runsOn("uid-good")
				f.only("uid-good", "uid-next")
			})
		})
	}
}

func problemsOf(f *source.File) error {
	if p := f.Problems(); len(p) > 0 {
		return fmt.Errorf("problems %+v", p)
	}
	return nil
}

// TestUnreadableManifestKeepsItsPod: F3, F8, SRC4, edge cases 11 and 14. When the manifest of a
// running pod becomes unreadable, the pod continues, even over a restart of the agent, and its
// owner gets an event. A repaired manifest is the same pod, and removing the manifest removes the
// pod. With ForgetBroken the pod is removed at once.
func TestUnreadableManifestKeepsItsPod(t *testing.T) {
	t.Parallel()
	for _, tc := range unreadable {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, root, folder := fake.New(fake.Options{}), t.TempDir(), t.TempDir()
				f := newFed(t, rt, root, folder)
				f.change("web.yaml", text(fixed("web", "app:1")))
				f.phase("uid-web", v1.PodRunning, 10*time.Second)
				f.change("web.yaml", tc.make)
				<-time.After(3 * time.Minute)
				f.runsOn("uid-web")
				f.toldOnce("web-n1", tc.reason, "manifest "+f.path("web.yaml"), tc.says, "its last good pod stays")
				if p := f.file.Problems(); len(p) != 1 || p[0].Pod == nil || p[0].Pod.UID != "uid-web" || !errors.Is(p[0].Err, tc.err) {
					t.Errorf("problems %+v", p)
				}
				f.stop()

				if errors.Is(tc.err, source.ErrSkipped) {
					return // this kind of file hides no pod: TestUndecided
				}
				f = newFed(t, rt, root, folder)
				<-time.After(3 * time.Minute)
				f.runsOn("uid-web")
				f.toldOnce("n1", tc.reason, tc.says)
				f.change("web.yaml", text(fixed("web", "app:1")))
				f.phase("uid-web", v1.PodRunning, 10*time.Second)
				f.within(10*time.Second, "no problem", func() error { return problemsOf(f.file) })
				f.runsOn("uid-web")
				f.only("uid-web")
				f.change("web.yaml", os.Remove)
				f.empty(time.Minute)
			})
		})
		t.Run(tc.name+", ForgetBroken", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFed(t, fake.New(fake.Options{}), t.TempDir(), t.TempDir(), func(o *source.FileOptions) { o.ForgetBroken = true })
				f.change("web.yaml", text(fixed("web", "app:1")))
				f.change("good.yaml", text(fixed("good", "app:1")))
				f.phase("uid-web", v1.PodRunning, 10*time.Second)
				f.phase("uid-good", v1.PodRunning, 10*time.Second)
				f.change("web.yaml", tc.make)
				f.within(30*time.Second, "the pod gone", func() error {
					if rt := f.runtime; rt.Running("uid-web", "main") != 0 || f.pod("uid-web") != nil {
						return errors.New("still there")
					}
					return nil
				})
				f.runsOn("uid-good")
				f.toldOnce("n1", tc.reason, "manifest "+f.path("web.yaml"), tc.says, "no pod is started from it")
			})
		})
	}
}

// TestBrokenFolderKeepsPods: SRC2, SRC4, F1. If something different takes the place of the folder,
// nothing changes: the pods continue to run, and the engine says why it has no newer manifests.
func TestBrokenFolderKeepsPods(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(path string) error
		says string
	}{
		"a FIFO":           {fifo, "not a regular file, nor a folder, but a FIFO"},
		"a link to itself": {func(path string) error { return link(path)(path) }, "too many levels of symbolic links"},
		"a device":         {link("/dev/null"), "nor a folder, but a device"},
		"a binary":         {text("\x7fELF"), "which was a folder, is a file that cannot be read: not a pod manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				folder := filepath.Join(t.TempDir(), "manifests")
				f := newFed(t, fake.New(fake.Options{}), t.TempDir(), folder)
				f.change("", func(path string) error { return os.Mkdir(path, 0o700) })
				f.change("web.yaml", text(fixed("web", "app:1")))
				f.phase("uid-web", v1.PodRunning, 10*time.Second)
				f.change("", func(path string) error { return errors.Join(os.Rename(path, path+".away"), tc.make(path)) })
				<-time.After(2 * time.Minute)
				f.runsOn("uid-web")
				if err := f.problems(); err == nil || !strings.Contains(err.Error(), "source file: ") || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("healthy: %v", err)
				}
				if p := f.file.Problems(); len(p) != 1 || p[0].Path != folder {
					t.Errorf("problems %+v", p)
				}
				if said := slices.Concat(f.events.said("n1 ManifestSkipped"), f.events.said("n1 ManifestUnreadable")); len(said) != 1 || !strings.Contains(said[0], "the pods that are known stay") {
					t.Errorf("events %q", said)
				}
				f.change("", func(path string) error { return errors.Join(os.RemoveAll(path), os.Rename(path+".away", path)) })
				f.within(10*time.Second, "health", f.problems)
				f.runsOn("uid-web")
			})
		})
	}
}
