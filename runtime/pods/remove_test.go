package pods_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// crashing makes a world where a pod's container has run four times.
func crashing(t *testing.T, opt ...func(*pods.Options)) (*world, *v1.Pod) {
	w := newWorld(t, func(fake.Launch) fake.Script {
		return fake.Script{Exit: &fake.Exit{After: second, Code: 1}}
	}, opt...)
	pod := newPod()
	for started := 0; started < 4; {
		if r := w.sync(pod); r.Err == nil {
			started++
			n := w.read(pod).Container("app").RestartCount
			log := filepath.Join(w.opts.LogDir, "default_web_uid-1", "app", fmt.Sprint(n, ".log"))
			for _, name := range []string{log, log + ".20260101-000000.gz"} {
				if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			pass(second)
			continue
		}
		pass(60 * second)
	}
	return w, pod
}

// spec/cleanup.md CG4, CG9, CG6: of a live pod the newest dead container stays,
// the older ones go with their logs.
func TestGarbageCollectLivePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept []string
		w, pod := crashing(t, func(o *pods.Options) {
			o.BeforeRemove = func(_ context.Context, uid types.UID, name string, id runtime.ContainerID) error {
				kept = append(kept, fmt.Sprint(uid, " ", name))
				return nil
			}
		})
		report, err := collect(t.Context(), w.m, pods.GCPolicy{SourcesReady: true})
		if err != nil || len(report.Containers) != 3 || len(report.Sandboxes) != 0 {
			t.Fatalf("CG4: %+v, err %v", report, err)
		}
		if len(kept) != 3 || kept[0] != "uid-1 app" {
			t.Errorf("CK3: kept %v before the removal", kept)
		}
		if got := w.read(pod).Containers; len(got) != 1 || got[0].RestartCount != 3 {
			t.Errorf("CG9: %d containers left", len(got))
		}
		entries, err := os.ReadDir(filepath.Join(w.opts.LogDir, "default_web_uid-1", "app"))
		if err != nil || len(entries) != 2 || entries[0].Name() != "3.log" {
			t.Errorf("CG6: logs %v, err %v", entries, err)
		}
		if report, err := collect(t.Context(), w.m, pods.GCPolicy{SourcesReady: true}); err != nil || len(report.Containers) != 0 {
			t.Errorf("ID2: a second run does %+v, err %v", report, err)
		}
	})
}

// spec/cleanup.md SG2, SB2, SB5: a removed pod loses everything, but only once
// the sources are ready.
func TestGarbageCollectRemovedPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pod := crashing(t)
		if err := w.m.KillPod(t.Context(), pod, nil, nil); err != nil {
			t.Fatal(err)
		}
		policy := pods.GCPolicy{ContentShouldBeRemoved: func(types.UID) bool { return true }, MaxPerContainer: -1}
		if report, err := collect(t.Context(), w.m, policy); err != nil || len(report.Containers)+len(report.Sandboxes) != 0 {
			t.Errorf("SG2: %+v, err %v", report, err)
		}
		policy.SourcesReady = true
		report, err := collect(t.Context(), w.m, policy)
		if err != nil || len(report.Containers) != 4 || len(report.Sandboxes) != 1 {
			t.Errorf("SB5: %+v, err %v", report, err)
		}
	})
}

// spec/runtime.md 19.3: what could not be recorded is kept, and so is everything
// that depends on it.
func TestGarbageCollectKeepsUnrecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := errors.New("disk full")
		w, pod := crashing(t, func(o *pods.Options) {
			o.BeforeRemove = func(context.Context, types.UID, string, runtime.ContainerID) error { return refuse }
		})
		if err := w.m.KillPod(t.Context(), pod, nil, nil); err != nil {
			t.Fatal(err)
		}
		report, err := collect(t.Context(), w.m, pods.GCPolicy{
			SourcesReady: true, ContentShouldBeRemoved: func(types.UID) bool { return true },
		})
		if !errors.Is(err, refuse) || len(report.Containers)+len(report.Sandboxes) != 0 {
			t.Errorf("%+v, err %v", report, err)
		}
		if err := w.m.RemovePod(t.Context(), pod.UID); !errors.Is(err, refuse) || len(w.read(pod).Containers) != 4 {
			t.Errorf("RemovePod: err %v", err)
		}
		if err := w.m.RemoveLogs(t.Context(), pod.UID); !errors.Is(err, pods.ErrContainersLeft) {
			t.Errorf("IN16: RemoveLogs: err %v", err)
		}
		// IN16: the logs of all four stay with them, each with its rotated one.
		entries, err := os.ReadDir(filepath.Join(w.opts.LogDir, "default_web_uid-1", "app"))
		if err != nil || len(entries) != 8 {
			t.Errorf("logs %v, err %v", entries, err)
		}
	})
}

// ND8, edge 27: what belongs to others is never touched.
func TestForeignObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		theirs := newWorld(t, nil, func(o *pods.Options) { o.OwnerID = "they" })
		theirs.fake, theirs.events = w.fake, w.events
		theirs.restart()
		pod := newPod()
		theirs.syncAll(pod)
		if err := theirs.m.KillPod(t.Context(), pod, nil, nil); err != nil {
			t.Fatal(err)
		}
		before := len(w.fake.Calls(fake.Match{}))
		report, err := collect(t.Context(), w.m, pods.GCPolicy{
			SourcesReady: true, KeepNone: true, ContentShouldBeRemoved: func(types.UID) bool { return true },
		})
		if err != nil || len(report.Containers)+len(report.Sandboxes) != 0 {
			t.Errorf("%+v, err %v", report, err)
		}
		if err := w.m.KillPod(t.Context(), pod, nil, nil); err != nil {
			t.Error(err)
		}
		if err := w.m.RemovePod(t.Context(), pod.UID); err != nil {
			t.Error(err)
		}
		for _, c := range w.fake.Calls(fake.Match{})[before:] {
			if !strings.HasPrefix(string(c.Method), "List") && c.Method != fake.Version {
				t.Errorf("1.9: %s on a foreign pod", c.Method)
			}
		}
	})
}

// RemovePod leaves nothing at the runtime and no logs; it refuses a pod that
// runs.
func TestRemovePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod(func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
		})
		w.syncAll(pod)
		if err := w.m.RemovePod(t.Context(), pod.UID); !errors.Is(err, pods.ErrPodRunning) {
			t.Errorf("err %v", err)
		}
		w.wantState(pod, "app:running")
		if err := w.m.KillPod(t.Context(), pod, nil, nil); err != nil {
			t.Fatal(err)
		}
		dirs, err := w.m.PodDirs()
		if err != nil || !slices.Equal(dirs, []types.UID{"uid-1"}) {
			t.Errorf("PodDirs %v, err %v", dirs, err)
		}
		if logs, err := w.m.LogDirs(); err != nil || !slices.Equal(logs, []types.UID{"uid-1"}) {
			t.Errorf("LogDirs %v, err %v", logs, err)
		}
		for range 2 {
			if err := w.m.RemovePod(t.Context(), pod.UID); err != nil {
				t.Error(err)
			}
			if err := w.m.RemovePodDir(t.Context(), pod.UID); err != nil {
				t.Error(err)
			}
		}
		if status := w.read(pod); len(status.Sandboxes)+len(status.Containers) != 0 {
			t.Error("the runtime still has something")
		}
		for _, dir := range []string{w.opts.LogDir, filepath.Join(w.opts.RootDir, "pods")} {
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
				t.Errorf("%s holds %v, err %v", dir, entries, err)
			}
		}
		for _, uid := range []types.UID{"", "..", "a/b"} {
			if w.m.RemovePod(t.Context(), uid) == nil || w.m.RemovePodDir(t.Context(), uid) == nil {
				t.Errorf("removal of %q succeeds", uid)
			}
		}
	})
}

// interruptedStart returns an engine that has just started. The engine before it died
// after it had created the pod's container and before the start had an answer.
func interruptedStart(t *testing.T) (*world, *v1.Pod) {
	t.Helper()
	w := newWorld(t, nil)
	pod := newPod()
	never := w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.StartContainer}, Effect: fake.Effect{Hang: true}})
	ctx, cancel := context.WithTimeout(t.Context(), second)
	defer cancel()
	w.m.SyncPod(ctx, pod, w.read(pod))
	w.wantState(pod, "app:created")
	never()
	w.restart()
	return w, pod
}

// spec/runtime.md 2.8, edge case 9: a container that was created and not started, because
// the engine died in between, is replaced under its own number: it does not count as a run.
func TestRestartCountOfCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pod := interruptedStart(t)
		w.syncAll(pod)
		w.wantState(pod, "app:running")
		if got := w.read(pod).Container("app").RestartCount; got != 0 {
			t.Errorf("2.8: count %d, want 0", got)
		}
	})
}

// spec/runtime.md 2.8, 6.1: the start that an engine asked for before it died may still be
// under way when the next one looks. The container must not be mistaken for one that never
// ran: it is neither removed nor started twice.
func TestStartedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pod := interruptedStart(t)
		view := w.read(pod)
		created := view.Container("app")
		if err := w.fake.StartContainer(t.Context(), created.ID.ID); err != nil {
			t.Fatal(err)
		}
		if err := w.m.SyncPod(t.Context(), pod, view).Err; err == nil || !strings.Contains(err.Error(), "started after all") {
			t.Errorf("the sync returned %v", err)
		}
		w.syncAll(pod)
		w.wantState(pod, "app:running")
		if now := w.read(pod).Container("app"); now.ID != created.ID {
			t.Errorf("container %s took the place of %s, which runs", now.ID, created.ID)
		}
	})
}

// spec/runtime.md 2.8, edge 5, RT4: with all records lost, the log files give the count.
// A file that a runtime made for a container that never ran does not count as a run.
func TestRestartCountFromLogs(t *testing.T) {
	const line = "2030-01-01T00:00:00Z stdout F started\n"
	for name, tc := range map[string]struct {
		logs map[string]string
		want int
	}{
		"rotated, though now empty":     {map[string]string{"3.log": "", "3.log.20260101-000000": "", "2.log": line, "x.log": line, "9.txt": line}, 4},
		"two runs":                      {map[string]string{"0.log": line, "1.log": line}, 2},
		"made with a container":         {map[string]string{"0.log": ""}, 0},
		"made again by each start":      {map[string]string{"0.log": "", "1.log": "", "2.log": ""}, 0},
		"made after a run":              {map[string]string{"0.log": line, "1.log": ""}, 1},
		"a run that wrote nothing":      {map[string]string{"0.log": "", "1.log": line}, 2},
		"nothing":                       {nil, 0},
		"a number that no count can be": {map[string]string{"99999999999.log": line}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				pod := newPod()
				dir := filepath.Join(w.opts.LogDir, "default_web_uid-1", "app")
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				for name, text := range tc.logs {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				w.syncAll(pod)
				if got := w.read(pod).Container("app").RestartCount; got != tc.want {
					t.Errorf("count %d, want %d", got, tc.want)
				}
			})
		})
	}
}

// spec/runtime.md 12.4, 12.5, edge 21: what containers get mounted without
// asking.
func TestManagedMounts(t *testing.T) {
	check := func(opt func(*pods.Options), change func(*v1.Pod), look func(t *testing.T, w *world, mounts map[string]string)) {
		synctest.Test(t, func(t *testing.T) {
			mounts := map[string]string{}
			w := newWorld(t, func(l fake.Launch) fake.Script {
				for _, m := range l.Config.GetMounts() {
					mounts[m.GetContainerPath()] = m.GetHostPath()
				}
				return fake.Script{}
			}, opt)
			w.syncAll(newPod(change))
			look(t, w, mounts)
		})
	}
	none := func(*pods.Options) {}
	check(none, func(p *v1.Pod) { p.Spec.Hostname = "h" }, func(t *testing.T, w *world, got map[string]string) {
		dir := filepath.Join(w.opts.RootDir, "pods/uid-1")
		text, err := os.ReadFile(filepath.Join(dir, "etc-hosts"))
		if err != nil || got["/etc/hosts"] != filepath.Join(dir, "etc-hosts") ||
			!strings.HasPrefix(string(text), "# Kubernetes-managed hosts file.\n") || !strings.Contains(string(text), "\th\n") {
			t.Errorf("12.4: %v: %q, err %v", got, text, err)
		}
		info, err := os.Stat(got["/dev/termination-log"])
		if err != nil || info.Mode().Perm() != 0o666 || filepath.Dir(got["/dev/termination-log"]) != filepath.Join(dir, "containers/app") {
			t.Errorf("12.5: %v, err %v", got, err)
		}
	})
	check(none, func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/mine"}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/etc/hosts"}}
	}, func(t *testing.T, _ *world, got map[string]string) {
		if got["/etc/hosts"] != "/mine" {
			t.Errorf("edge 21: %v", got)
		}
	})
	// A container in the node's own file system has no place for them.
	synctest.Test(t, func(t *testing.T) {
		asked := false
		w := newWorld(t, func(l fake.Launch) fake.Script {
			asked = true
			if n := len(l.Config.GetMounts()); n != 0 {
				t.Errorf("image host: %d mounts", n)
			}
			return fake.Script{}
		})
		pod := newPod(func(p *v1.Pod) { p.Spec.Containers[0].Image = "host" })
		withImages(w, pod)
		m, err := pods.New(w.fake, hostImages{w.fake}, w.opts)
		if err != nil {
			t.Fatal(err)
		}
		if r := m.SyncPod(t.Context(), pod, nil); r.Err != nil || !asked {
			t.Errorf("%+v", r)
		}
	})
	check(func(o *pods.Options) { o.NoManagedMounts = true }, func(*v1.Pod) {}, func(t *testing.T, _ *world, got map[string]string) {
		if len(got) != 0 {
			t.Errorf("NoManagedMounts: %v", got)
		}
	})
}

// hostImages is a store as runtime/process has it: images have names for IDs.
type hostImages struct{ *fake.Runtime }

func (hostImages) ImageStatus(context.Context, *runtimeapi.ImageSpec, bool) (*runtimeapi.ImageStatusResponse, error) {
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "host"}}, nil
}

// spec/runtime.md 20.
func TestTerminationMessage(t *testing.T) {
	w := newWorld(t, nil)
	file := func(dir, name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	podsDir := filepath.Join(w.opts.RootDir, "pods")
	message := file(podsDir, "u/containers/c/1", "bye")
	empty := file(podsDir, "u/containers/c/2", "")
	long := file(podsDir, "u/containers/c/3", strings.Repeat("x", 9999)+"end")
	outside := file(w.opts.RootDir, "secret", "secret")
	link := filepath.Join(podsDir, "u/link")
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for i := range 100 {
		fmt.Fprintf(&lines, "2026-01-01T00:00:00Z stdout F line %d\n", i)
	}
	log := file(w.opts.LogDir, "p/c/0.log", lines.String()+"2026-01-01T00:00:00Z stderr P the \n2026-01-01T00:00:00Z stderr F end\n")
	wantLog := func(s string) bool {
		return strings.HasPrefix(s, "line 21\n") && strings.HasSuffix(s, "line 99\nthe end\n")
	}
	is := func(want string) func(string) bool { return func(s string) bool { return s == want } }
	const fallback = string(v1.TerminationMessageFallbackToLogsOnError)
	for _, tc := range []struct {
		name   string
		mount  string
		policy string
		change func(*runtime.ContainerStatus)
		want   func(string) bool
	}{
		{name: "file", mount: message, want: is("bye")},
		{name: "the runtime's comes first", mount: message, change: func(c *runtime.ContainerStatus) { c.Message = "oom" }, want: is("oom: bye")},
		{name: "edge 29: last 4096 bytes", mount: long, want: func(s string) bool { return len(s) == 4096 && strings.HasSuffix(s, "xend") }},
		{name: "no mount", want: is("")},
		{name: "missing file", mount: filepath.Join(podsDir, "u/none"), want: is("")},
		{name: "not exited", mount: message, change: func(c *runtime.ContainerStatus) { c.State = runtime.Running }, want: is("")},
		{name: "outside is not read", mount: outside, want: func(s string) bool { return !strings.Contains(s, "secret\n") && s != "secret" }},
		{name: "nor through a link", mount: link, want: func(s string) bool { return s != "secret" }},
		{name: "log", mount: empty, policy: fallback, want: wantLog},
		{name: "file wins over log", mount: message, policy: fallback, want: is("bye")},
		{name: "no log after success", mount: empty, policy: fallback, change: func(c *runtime.ContainerStatus) { c.ExitCode = 0 }, want: is("")},
		{name: "no log if it never ran", mount: empty, policy: fallback, change: func(c *runtime.ContainerStatus) { c.Reason = "ContainerCannotRun" }, want: is("")},
		{name: "no log by default", mount: empty, want: is("")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &runtime.ContainerStatus{
				State: runtime.Exited, ExitCode: 1, LogPath: log, Mounts: map[string]string{"/dev/termination-log": tc.mount},
				Annotations: map[string]string{
					meta.AnnotationTerminationMessagePath: "/dev/termination-log", meta.AnnotationTerminationPolicy: tc.policy,
				},
			}
			if tc.change != nil {
				tc.change(c)
			}
			if got := w.m.TerminationMessage(c); !tc.want(got) {
				t.Errorf("20: %d bytes: %.300q", len(got), got)
			}
		})
	}
	if _, err := os.Stat(outside); errors.Is(err, fs.ErrNotExist) {
		t.Error("the file outside is gone")
	}
}

// TestFQDNAsHostname: spec/runtime.md 3.1, 12.4. With setHostnameAsFQDN the hosts file has the long
// and the short name, each once; a name that no kernel takes is an event that says how long it is.
func TestFQDNAsHostname(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		long := func(subdomain string) func(*v1.Pod) {
			return func(p *v1.Pod) {
				p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "front", subdomain, ptr.To(true)
			}
		}
		pod := newPod(long("pages"))
		w.syncAll(pod)
		text, err := os.ReadFile(filepath.Join(w.opts.RootDir, "pods", string(pod.UID), "etc-hosts"))
		name := "front.pages." + pod.Namespace + ".svc.cluster.local"
		if err != nil || !strings.Contains(string(text), "\t"+name+"\tfront\n") {
			t.Errorf("%s, err %v", text, err)
		}
		request := w.fake.Calls(fake.Match{Method: fake.RunPodSandbox})[0].Request.(*runtimeapi.RunPodSandboxRequest)
		if got := request.GetConfig().GetHostname(); got != name {
			t.Errorf("the kernel's name is %q", got)
		}
		bad := newPod(long(strings.Repeat("s", 60)), func(p *v1.Pod) { p.UID, p.Name = "uid-2", "bad" })
		w.sync(bad)
		if !w.events.has("Warning FailedCreatePodSandBox  Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster domain, FQDN front.s") {
			t.Errorf("%q", w.events.list())
		}
	})
}
