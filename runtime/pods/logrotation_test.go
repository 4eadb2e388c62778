package pods_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// logging makes a world whose containers write a line of 100 bytes and more every
// second, with log files.
func logging(t *testing.T, opt ...func(*pods.Options)) *world {
	t.Helper()
	w := newWorld(t, nil, opt...)
	w.fake = fake.New(fake.Options{WriteLogs: true, Script: func(fake.Launch) fake.Script {
		return fake.Script{Log: []fake.Line{{Every: second, Text: strings.Repeat("x", 100)}}}
	}})
	w.restart()
	return w
}

// rotator makes a rotator that sees the given pods.
func (w *world) rotator(policy pods.LogRotation, of ...*v1.Pod) *pods.LogRotator {
	w.t.Helper()
	running := func(context.Context) (out []*runtime.PodStatus, _ error) {
		for _, pod := range of {
			out = append(out, w.read(pod))
		}
		return out, nil
	}
	if len(of) == 0 {
		running = nil
	}
	r, err := w.m.NewLogRotator(policy, running)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// rotatorOf makes a rotator that sees exactly these statuses.
func (w *world) rotatorOf(policy pods.LogRotation, running ...*runtime.PodStatus) *pods.LogRotator {
	w.t.Helper()
	r, err := w.m.NewLogRotator(policy, func(context.Context) ([]*runtime.PodStatus, error) { return running, nil })
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) logs(container string) []string {
	w.t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.opts.LogDir, "default_web_uid-1", container))
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// spec/runtime.md 18.1, 18.4: a log that grew too large is rotated at the next look,
// the number of files holds, and a log that is small costs no call.
func TestLogRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := logging(t)
		w.syncAll(newPod())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.rotator(pods.LogRotation{MaxSize: 2000, MaxFiles: 3}).Run(ctx) }()
		pass(9 * second)
		if got := w.logs("app"); len(got) != 1 || got[0] != "0.log" {
			t.Errorf("18.1: logs %v", got)
		}
		pass(5 * time.Minute)
		synctest.Wait()
		got := w.logs("app")
		if len(got) != 3 || !strings.HasSuffix(got[1], ".gz") || strings.HasSuffix(got[2], ".gz") {
			t.Errorf("18.4: logs %v", got)
		}
		// The fake writes when it is looked at: 20 lines are due with each second look.
		if n := len(w.calls(fake.ReopenContainerLog)); n < 10 || n > 16 {
			t.Errorf("18.4: %d rotations in 5 min", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// spec/runtime.md 18.4: zero is 10 MiB and 5 files, a negative size is off, one file
// is not enough.
func TestLogRotationPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := logging(t)
		pod := newPod()
		w.syncAll(pod)
		for _, bad := range []pods.LogRotation{{MaxFiles: 1}, {MaxFiles: -1}, {Period: -second}} {
			if _, err := w.m.NewLogRotator(bad, nil); err == nil {
				t.Errorf("%+v is accepted", bad)
			}
		}
		log := filepath.Join(w.opts.LogDir, "default_web_uid-1/app/0.log")
		for _, tc := range []struct {
			size    int64
			rotated bool
		}{{10<<20 - 1000, false}, {10 << 20, true}} {
			if err := os.Truncate(log, tc.size); err != nil {
				t.Fatal(err)
			}
			if err := w.rotator(pods.LogRotation{}).Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := w.logs("app"); (len(got) > 1) != tc.rotated {
				t.Errorf("18.4: of %d bytes there are %v", tc.size, got)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		before := len(w.fake.Calls(fake.Match{}))
		if err := w.rotator(pods.LogRotation{MaxSize: -1}).Run(ctx); err != nil || len(w.fake.Calls(fake.Match{})) != before {
			t.Errorf("18.4: off, but calls are made; err %v", err)
		}
	})
}

// spec/runtime.md 18.4: a log that is missing, because the agent was killed between
// rename and reopening, is opened again; a runtime that writes none is not asked all
// the time.
func TestMissingLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := logging(t)
		pod := newPod()
		w.syncAll(pod)
		r := w.rotator(pods.LogRotation{}, pod)
		dir := filepath.Join(w.opts.LogDir, "default_web_uid-1/app")
		var err error
		if err := os.Rename(filepath.Join(dir, "0.log"), filepath.Join(dir, "0.log.20000101-000000")); err != nil {
			t.Fatal(err)
		}
		w.restart()
		if err := r.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.logs("app"); len(got) != 2 || got[0] != "0.log" {
			t.Errorf("18.4: logs %v", got)
		}

		for name, silent := range map[string]bool{"says that it writes none": true, "says that it has reopened it": false} {
			w.fake = fake.New(fake.Options{}) // writes no logs
			w.restart()
			other := newPod(func(p *v1.Pod) { p.UID = "uid-2" })
			w.syncAll(other)
			service := &logless{Runtime: w.fake, claims: !silent}
			if w.m, err = pods.New(service, w.fake, w.opts); err != nil {
				t.Fatal(err)
			}
			r = w.rotator(pods.LogRotation{}, other)
			if err := r.Rotate(t.Context()); (err == nil) != silent {
				t.Errorf("a runtime that %s: %v", name, err)
			}
			for range 100 {
				if err := r.Rotate(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if service.asked != 1 {
				t.Errorf("a runtime that %s: %d calls for a log that never comes", name, service.asked)
			}
			pass(time.Hour)
			if err := r.Rotate(t.Context()); (err == nil) != silent || service.asked != 2 {
				t.Errorf("a runtime that %s: asked %d times, %v", name, service.asked, err)
			}
		}
	})
}

// logless is a runtime without logs, which may claim to have reopened one.
type logless struct {
	*fake.Runtime
	claims bool
	asked  int
}

func (l *logless) ReopenContainerLog(ctx context.Context, id string) error {
	l.asked++
	if l.claims {
		return nil
	}
	return l.Runtime.ReopenContainerLog(ctx, id)
}

// edge case 28: the log keeps its name while the runtime does not reopen it, and is
// rotated once it does. One that hangs holds up the other containers for 10 s.
func TestReopenFails(t *testing.T) {
	for name, effect := range map[string]fake.Effect{"error": {Err: errors.New("busy")}, "hangs": {Hang: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := logging(t)
				pod := newPod(func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, container("other")) })
				w.syncAll(pod)
				pass(time.Minute)
				r := w.rotator(pods.LogRotation{MaxSize: 1000}, pod)
				remove := w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.ReopenContainerLog, Container: "app"}, Effect: effect})
				begin := time.Now()
				if err := r.Rotate(t.Context()); err == nil || !strings.Contains(err.Error(), "container app of pod web_default(uid-1)") {
					t.Errorf("err %v", err)
				}
				if took := time.Since(begin); took > 10*second {
					t.Errorf("one container held up the others for %s", took)
				}
				if got := w.logs("app"); len(got) != 1 || got[0] != "0.log" {
					t.Errorf("edge 28: logs %v", got)
				}
				if got := w.logs("other"); len(got) != 2 {
					t.Errorf("HI12: the other container's logs %v", got)
				}
				remove()
				if err := r.Rotate(t.Context()); err != nil || len(w.logs("app")) != 2 {
					t.Errorf("edge 28: then logs %v, err %v", w.logs("app"), err)
				}
			})
		})
	}
}

// spec/runtime.md 18.4: only running containers are checked; without one nothing is
// read, and a container that ends meanwhile is not an error.
func TestLogsOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := logging(t)
		pod := newPod()
		w.syncAll(pod)
		pass(time.Minute)
		running := w.read(pod)
		if err := w.m.KillPod(t.Context(), pod, nil, nil); err != nil {
			t.Fatal(err)
		}
		stale := w.rotatorOf(pods.LogRotation{MaxSize: 100}, running)
		if err := stale.Rotate(t.Context()); err != nil || len(w.logs("app")) != 1 {
			t.Errorf("it ended meanwhile: logs %v, err %v", w.logs("app"), err)
		}
		if err := os.RemoveAll(w.opts.LogDir); err != nil {
			t.Fatal(err)
		}
		if err := w.rotator(pods.LogRotation{MaxSize: 100}, pod).Rotate(t.Context()); err != nil {
			t.Errorf("the log directory of a dead pod is read: %v", err)
		}
		broken, err := w.m.NewLogRotator(pods.LogRotation{}, func(context.Context) ([]*runtime.PodStatus, error) {
			return nil, errors.New("no list")
		})
		if err != nil || broken.Rotate(t.Context()) == nil {
			t.Error("a list that fails is no error")
		}
	})
}

// A container that has its log folder mounted cannot have another file renamed,
// read or removed: links are not followed, neither in place of the log nor of a
// folder.
func TestPlantedLogLinks(t *testing.T) {
	for _, planted := range []string{"log", "container folder", "pod folder"} {
		t.Run(planted, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := logging(t)
				pod := newPod()
				w.syncAll(pod)
				pass(time.Minute)
				running := w.read(pod)
				victim := filepath.Join(w.opts.LogDir, "default_db_uid-9/app")
				if err := os.MkdirAll(victim, 0o755); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"0.log", "0.log.20260101-000000"} {
					if err := os.WriteFile(filepath.Join(victim, name), []byte(strings.Repeat("2026-01-01T00:00:00Z stdout F secret\n", 20)), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				at := filepath.Join(w.opts.LogDir, "default_web_uid-1")
				to := filepath.Dir(victim)
				switch planted {
				case "log":
					at, to = filepath.Join(at, "app/0.log"), filepath.Join(victim, "0.log")
				case "container folder":
					at, to = filepath.Join(at, "app"), victim
				}
				to, err := filepath.Rel(filepath.Dir(at), to)
				if err := errors.Join(err, os.RemoveAll(at), os.Symlink(to, at)); err != nil {
					t.Fatal(err)
				}
				_ = w.rotatorOf(pods.LogRotation{MaxSize: 10}, running).Rotate(t.Context())
				exited := *running.Containers[0]
				exited.State, exited.ExitCode = runtime.Exited, 1
				exited.Annotations = map[string]string{meta.AnnotationTerminationPolicy: string(v1.TerminationMessageFallbackToLogsOnError)}
				if text := w.m.TerminationMessage(&exited); strings.Contains(text, "secret") {
					t.Errorf("another pod's log becomes a message: %q", text)
				}
				if err := w.m.KillPod(t.Context(), pod, nil, nil); err != nil {
					t.Fatal(err)
				}
				_ = w.m.RemovePod(t.Context(), pod.UID)
				entries, err := os.ReadDir(victim)
				if err != nil || len(entries) != 2 {
					t.Errorf("of the other pod's logs there are %v, err %v", entries, err)
				}
			})
		})
	}
}

// IN1: a runtime that does not reopen the logs of many containers, and heeds no context,
// delays the rotation of another log by moments, is asked once for each, and asked again
// once it has answered.
func TestHungLogsDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := logging(t)
		pod := newPod(func(p *v1.Pod) {
			for i := range 30 {
				p.Spec.Containers = append(p.Spec.Containers, container(fmt.Sprint("hung-", i)))
			}
		})
		w.syncAll(pod)
		pass(time.Minute)
		deaf := make(chan struct{})
		asked := map[string]int{}
		var mu sync.Mutex
		defer w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.ReopenContainerLog, Func: func(c fake.Call) bool {
			if strings.HasPrefix(c.Container, "hung") {
				mu.Lock()
				asked[c.Container]++
				mu.Unlock()
				<-deaf
			}
			return false
		}}})()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		running := w.read(pod)
		go func() {
			ended <- w.rotatorOf(pods.LogRotation{MaxSize: 1000, MaxFiles: 3, Period: 10 * second}, running).Run(ctx)
		}()
		pass(10*second + 250*time.Millisecond)
		synctest.Wait()
		if got := w.logs("app"); len(got) != 2 {
			t.Errorf("the container's logs that the others hold up: %v", got)
		}
		pass(time.Minute)
		mu.Lock()
		if len(asked) != 30 || asked["hung-0"] != 1 {
			t.Errorf("asked for the hung ones: %v", asked)
		}
		mu.Unlock()
		close(deaf)
		pass(time.Minute)
		synctest.Wait()
		if got := w.logs("hung-0"); len(got) < 2 {
			t.Errorf("once the runtime answers: %v", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
