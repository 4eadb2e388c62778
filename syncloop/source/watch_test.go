package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/syncloop"
)

// watched runs a file source in real time. Its period is an hour, so the watch
// causes every delivery after the first set.
type watched struct {
	*folder
	sets chan []*v1.Pod
}

func watchPath(t *testing.T, path string) *watched {
	t.Helper()
	source, err := NewFile(path, "node", FileOptions{Period: time.Hour})
	must(t, err)
	w := &watched{folder: &folder{t: t, path: path, file: source}, sets: make(chan []*v1.Pod)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- source.Run(ctx, func(ctx context.Context, pods []*v1.Pod) error {
			select {
			case w.sets <- pods:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	return w
}

// until waits for a set of these pods, at most until the test's own time limit.
func (w *watched) until(what string, want ...string) {
	w.t.Helper()
	var got []string
	for set := range w.sets {
		if got = describe(set); slices.Equal(got, want) {
			return
		}
		w.t.Logf("%s: passing through %q", what, got)
	}
}

// TestWatch is F4 and F8 on a real file system.
func TestWatch(t *testing.T) {
	w := watchPath(t, t.TempDir())
	w.until("start")
	w.write("web.yaml", manifestOf("web", "app:1"))
	w.until("created", "web-node app:1")
	w.write("web.yaml", manifestOf("web", "app:2"))
	w.until("written", "web-node app:2")

	// An editor renames a new file over the old one. The pod is never missing in
	// between.
	w.write(".web.yaml.swp", manifestOf("web", "app:3"))
	must(t, os.Rename(filepath.Join(w.path, ".web.yaml.swp"), filepath.Join(w.path, "web.yaml")))
	if got := describe(<-w.sets); !slices.Equal(got, []string{"web-node app:3"}) {
		t.Errorf("renamed over: %q", got)
	}

	// The file is truncated, then written: the source does not see the
	// half-written manifest, or keeps the pod.
	path := filepath.Join(w.path, "web.yaml")
	must(t, os.Truncate(path, 0))
	w.write("web.yaml", manifestOf("web", "app:4"))
	for set := range w.sets {
		got := describe(set)
		if len(got) != 1 {
			t.Fatalf("half written: %q", got)
		}
		if got[0] == "web-node app:4" {
			break
		}
	}
	w.write("db.yaml", manifestOf("db", "db:1"))
	w.until("a second one", "db-node db:1", "web-node app:4")
	w.remove("web.yaml")
	w.until("removed", "db-node db:1")
	must(t, os.Rename(filepath.Join(w.path, "db.yaml"), filepath.Join(t.TempDir(), "db.yaml")))
	w.until("moved away")

	// F6, edge 12: an emptied folder has only the new pod.
	w.write("new.yaml", manifestOf("new", "app:1"))
	for set := range w.sets {
		got := describe(set)
		if len(got) > 1 || len(got) == 1 && got[0] != "new-node app:1" {
			t.Fatalf("emptied, then one new file: %q", got)
		}
		if len(got) == 1 {
			break
		}
	}
}

// TestWatchFollowsTheFolder: the folder may come, go and be replaced.
func TestWatchFollowsTheFolder(t *testing.T) {
	parent := t.TempDir()
	w := watchPath(t, filepath.Join(parent, "manifests"))
	w.until("missing")
	must(t, os.Mkdir(w.path, 0o700))
	w.write("web.yaml", manifestOf("web", "app:1"))
	w.until("made", "web-node app:1")
	must(t, os.Rename(w.path, filepath.Join(parent, "old")))
	w.until("moved away")
	must(t, os.Mkdir(w.path, 0o700))
	w.write("web.yaml", manifestOf("web", "app:2"))
	w.until("made again", "web-node app:2")
	w.write("web.yaml", manifestOf("web", "app:3"))
	w.until("the new folder is watched", "web-node app:3")
}

// TestWatchFollowsALink: a source whose path is a link watches the folder that the link was switched to.
func TestWatchFollowsALink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "manifests")
	point := func(to string) {
		must(t, os.Symlink(to, path+".new"))
		must(t, os.Rename(path+".new", path))
	}
	first, second := t.TempDir(), t.TempDir()
	point(first)
	w := watchPath(t, path)
	w.until("start")
	point(second)
	text(manifestOf("web", "app:1"))(t, filepath.Join(first, "any.yaml")) // makes the source look
	w.until("switched")
	text(manifestOf("web", "app:2"))(t, filepath.Join(second, "web.yaml"))
	w.until("the new folder is watched", "web-node app:2")
}

// TestWatchOfLinkedFolder: the watch sees at once when a hidden link is switched,
// which is how Kubernetes updates mounted files.
func TestWatchOfLinkedFolder(t *testing.T) {
	w := watchPath(t, t.TempDir())
	w.until("start")
	put := func(version, content string) {
		must(t, os.Mkdir(filepath.Join(w.path, version), 0o700))
		text(content)(t, filepath.Join(w.path, version, "web.yaml"))
		must(t, os.Symlink(version, filepath.Join(w.path, "..tmp")))
		must(t, os.Rename(filepath.Join(w.path, "..tmp"), filepath.Join(w.path, "..data")))
	}
	put("..1", manifestOf("web", "app:1"))
	must(t, os.Symlink("..data/web.yaml", filepath.Join(w.path, "web.yaml")))
	w.until("linked", "web-node app:1")
	put("..2", manifestOf("web", "app:22"))
	w.until("switched", "web-node app:22")
}

func TestWatchOfSingleFile(t *testing.T) { // F1
	w := watchPath(t, filepath.Join(t.TempDir(), "web.yaml"))
	w.until("missing")
	must(t, os.WriteFile(w.path, []byte(manifestOf("web", "app:1")), 0o600))
	w.until("written", "web-node app:1")
	must(t, os.WriteFile(w.path+".new", []byte(manifestOf("web", "app:2")), 0o600))
	must(t, os.Rename(w.path+".new", w.path))
	w.until("renamed over", "web-node app:2")
	must(t, os.Remove(w.path))
	w.until("removed")
}

// TestPollWaitsForAChange (F8): a poll that falls into a change waits until the folder is quiet, but not longer than changes do.
func TestPollWaitsForAChange(t *testing.T) {
	now := time.Unix(100, 0)
	w := &watch{}
	if got := w.lookAt(now); got != now {
		t.Errorf("a poll of a still folder is at %v, want %v", got, now)
	}
	for range 20 {
		w.plan(now) // a file is written, and goes on being written
		if got := w.lookAt(now); got.Sub(now) > quiet || got.Before(now) {
			t.Errorf("the look is %v after the change", got.Sub(now))
		}
		if now = now.Add(40 * time.Millisecond); now.Sub(time.Unix(100, 0)) >= quietMax {
			break
		}
	}
	if got := w.lookAt(now); got != time.Unix(100, 0).Add(quietMax) {
		t.Errorf("the look is at %v, want %v", got, time.Unix(100, 0).Add(quietMax))
	}
	w.retryAt = time.Unix(99, 0)
	if got := w.earliest(now); got != w.retryAt {
		t.Errorf("the retry of the watch at %v waits until %v", w.retryAt, got)
	}
}

func TestPoll(t *testing.T) { // F4, F7, section 2, SRC1
	dir := filepath.Join(t.TempDir(), "manifests")
	must(t, os.Mkdir(dir, 0o700))
	synctest.Test(t, func(t *testing.T) {
		source, err := NewFile(dir, "node", FileOptions{PollOnly: true})
		must(t, err)
		begin := time.Now()
		type delivery struct {
			At   time.Duration
			Pods []string
		}
		var mu sync.Mutex
		var got []delivery
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		failing := errors.New("the loop ended")
		go func() {
			done <- source.Run(ctx, func(_ context.Context, pods []*v1.Pod) error {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, delivery{time.Since(begin), describe(pods)})
				if len(got) == 5 {
					return failing
				}
				return nil
			})
		}()
		pass := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		pass(25 * time.Second)
		must(t, os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(manifestOf("web", "app:1")), 0o600))
		pass(20 * time.Second)
		// A folder that cannot be read causes no delivery.
		must(t, os.Rename(dir, dir+".away"))
		must(t, os.Symlink(dir, dir))
		pass(20 * time.Second)
		if h := source.Health(); !errors.Is(h.LastError, syscall.ELOOP) {
			t.Errorf("health %+v", h)
		}
		must(t, os.Remove(dir))
		must(t, os.Rename(dir+".away", dir))
		pass(20 * time.Second)
		mu.Lock()
		diff(t, "deliveries", []delivery{
			{0, []string{}},
			{20 * time.Second, []string{}},
			{40 * time.Second, []string{"web-node app:1"}},
			{80 * time.Second, []string{"web-node app:1"}},
		}, got)
		mu.Unlock()
		pass(20 * time.Second)
		if err := <-done; !errors.Is(err, failing) {
			t.Errorf("Run: %v, want the error of deliver", err)
		}
		cancel()
		if err := source.Run(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Run with an ended context: %v", err)
		}
	})
}

func TestNewFileListsAllProblems(t *testing.T) {
	_, err := NewFile("", "node_1", FileOptions{Period: -1})
	for _, want := range []string{"no path", `node name "node_1"`, "negative"} {
		if err == nil || !contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	f, err := NewFile("x//y/", "node", FileOptions{})
	must(t, err)
	if !filepath.IsAbs(f.path) || filepath.Base(f.path) != "y" || f.Name() != "file" || f.Precedence() != syncloop.PrecedenceFile {
		t.Errorf("path %s, name %s", f.path, f.Name()) // F1
	}
}
