//go:build containerd

package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/patience"
)

var (
	tenantFiles  = flag.Int("tenant.files", 20_000, "how many files TestContainerdHostileTenant puts into a volume")
	tenantLevels = flag.Int("tenant.levels", 10_000, "how deep a folder it makes in another one")
)

// tenant serves manifests, one per path, until it withdraws them all.
type tenant struct {
	mu        sync.Mutex
	manifests map[string]string
	withdrawn bool
}

func (s *tenant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.withdrawn {
		fmt.Fprint(w, `{"apiVersion": "v1", "kind": "PodList", "items": []}`)
		return
	}
	fmt.Fprint(w, s.manifests[strings.TrimPrefix(r.URL.Path, "/")])
}

func (s *tenant) withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withdrawn = true
}

// attack is a manifest and what becomes of it: a phase with a reason and a message, a reason why
// its container waits, or, of a manifest that is no pod, what the log says.
type attack struct {
	manifest          string
	phase             v1.PodPhase
	reason, says, log string
}

// victimUID is the UID of a pod of the operator.
const victimUID = "11111111-2222-3333-4444-555555555555"

// inName gives a manifest another line below metadata.
func inName(manifest, line string) string {
	return regexp.MustCompile(`metadata: \{name: (\S+)\}`).ReplaceAllString(manifest, "metadata:\n  name: $1\n  "+line)
}

// attacks are a tenant's manifests, by name.
func attacks(image string) map[string]attack {
	asks := func(name string, lines ...string) string {
		return pod(name, image, "sleep 100000", append([]string{"    terminationMessagePolicy: File"}, append(lines, "  terminationGracePeriodSeconds: 1")...)...)
	}
	out := map[string]attack{}
	for name, lines := range map[string][]string{
		"privileged":    {"    securityContext: {privileged: true}"},
		"root-of-node":  {"  volumes: [{name: v, hostPath: {path: /}}]"},
		"host-network":  {"  hostNetwork: true"},
		"host-pid":      {"  hostPID: true"},
		"host-ipc":      {"  hostIPC: true"},
		"host-port":     {"    ports: [{containerPort: 80, hostPort: 80}]"},
		"admin":         {"    securityContext: {capabilities: {add: [SYS_ADMIN]}}"},
		"everything":    {"    securityContext: {capabilities: {add: [ALL]}}"},
		"unconfined":    {"    securityContext: {seccompProfile: {type: Unconfined}}"},
		"no-apparmor":   {"    securityContext: {appArmorProfile: {type: Unconfined}}"},
		"spc":           {"  securityContext: {seLinuxOptions: {type: spc_t}}"},
		"unmasked":      {"    securityContext: {procMount: Unmasked}", "  hostUsers: false"},
		"sysctl":        {"  securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}"},
		"asks-metadata": {"    livenessProbe: {httpGet: {host: 169.254.169.254, port: 80}}"},
		"asks-node":     {"    readinessProbe: {tcpSocket: {host: 127.0.0.1, port: 22}}"},
		"tells-node":    {"    lifecycle: {postStart: {httpGet: {host: 169.254.169.254, port: 80}}}"},
	} {
		out[name] = attack{manifest: asks(name, lines...), phase: v1.PodFailed, reason: "PodSecurity", says: `violates PodSecurity "baseline"`}
	}
	critical := func(name, line string) {
		out[name] = attack{manifest: asks(name, line), phase: v1.PodFailed, reason: "SourcePolicy", says: "the highest is 1000000000"}
	}
	critical("node-critical", "  priorityClassName: system-node-critical")
	critical("very-important", "  priority: 2000001000")
	refused := func(name, manifest, log string) { out[name] = attack{manifest: manifest, log: log} }
	refused("for-ever", asks("for-ever", "  activeDeadlineSeconds: 9223372036854775807"), "activeDeadlineSeconds")
	refused("no-end", strings.Replace(asks("no-end"), "Seconds: 1", "Seconds: 9223372036854775807", 1), "terminationGracePeriodSeconds")
	refused("coloured", strings.Replace(asks("coloured"), "name: coloured", `name: "\e[31mred"`, 1), "metadata.name")
	refused("way-out", strings.Replace(asks("way-out"), "name: way-out", "name: ../../way-out", 1), "metadata.name")
	refused("no-text", asks("no-text")+"  # \xff\xfe\xff", "no-text")
	refused("bomb", inName(asks("bomb"), "annotations: {a0: &x "+strings.Repeat("x", 200_000)+strings.Repeat(", b: *x", 1000)+"}"), "bomb")
	refused("wordy", inName(asks("wordy"), "annotations: {a: "+strings.Repeat("x", 300_000)+"}"), "annotations")
	crowd := "apiVersion: v1\nkind: PodList\nitems:\n" + strings.Repeat("- {metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}\n", 1001)
	refused("crowd", crowd, "too many pods")
	out["namesake"] = attack{manifest: asks("victim"), log: "its full name belongs to a pod"}
	out["thief"] = attack{manifest: inName(asks("thief"), "uid: "+victimUID), phase: v1.PodRunning} // with a UID of the node's own
	runs := func(name, script string, lines ...string) {
		out[name] = attack{manifest: pod(name, image, script, append(lines, "  terminationGracePeriodSeconds: 2")...), phase: v1.PodRunning}
	}
	data := []string{"    volumeMounts: [{name: data, mountPath: /data}]", "  volumes: [{name: data, emptyDir: {}}]"}
	out["labelled"] = attack{manifest: inName(asks("labelled"), "labels: {"+manyLabels(1200)+"}"), log: "make them fewer or shorter"}
	out["long-message"] = attack{
		manifest: pod("long-message", image, "head -c 5000000 /dev/zero >/dev/termination-log; sleep 100000",
			"    terminationMessagePolicy: File", "    resources: {limits: {ephemeral-storage: 2Mi}}", "  terminationGracePeriodSeconds: 1"),
		phase: v1.PodFailed, reason: "Evicted", says: "exceeds",
	}
	runs("deep", "sleep 100000", data...)
	runs("wide", "sleep 100000", data...)
	runs("endless-log", "head -c 60000000 /dev/zero | tr '\\0' x | fold -w 1000; sleep 100000")
	runs("deaf", "trap '' TERM; while :; do sleep 1; done")
	runs("many-processes", "for i in $(seq 200); do sleep 100000 & done; wait")
	runs("environment", "sleep 100000", "    env: ["+strings.TrimSuffix(strings.Repeat("{name: X, value: some},", 10_000), ",")+"]")
	out["painted"] = attack{manifest: inName(asks("painted"), `annotations: {a: "\e[2J\u009b31m\u202e"}`), phase: v1.PodRunning}
	over := append([]string{}, data...)
	over[1] = "  volumes: [{name: data, emptyDir: {sizeLimit: 1Mi}}]"
	out["grows"] = attack{manifest: pod("grows", image, "head -c 5000000 /dev/zero >/data/f; sleep 100000", over...), phase: v1.PodFailed, reason: "Evicted", says: "exceeds"}
	out["last-words"] = attack{
		manifest: pod("last-words", image, `for i in $(seq 1000); do printf '\033[31m%01000d' 0; done >/dev/termination-log; exit 3`, "  restartPolicy: Never"),
		phase:    v1.PodFailed,
	}
	out["crashes"] = attack{manifest: pod("crashes", image, "exit 1"), reason: "CrashLoopBackOff"}
	refused("bad-image", pod("bad-image", `"\e[31mimage"`, "true"), "containers[0].image")
	out["link"] = attack{
		manifest: pod("link", image, "sleep 100000", "    volumeMounts: [{name: data, mountPath: /data, subPath: out}]",
			"  initContainers: [{name: init, image: "+image+", imagePullPolicy: IfNotPresent, command: [ln, -s, /etc/shadow, /data/out], volumeMounts: [{name: data, mountPath: /data}]}]",
			"  volumes: [{name: data, emptyDir: {}}]"),
		reason: "CreateContainerConfigError",
	}
	return out
}

// manyLabels are n labels with long names.
func manyLabels(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("example.com/%050d: v", i))
	}
	return strings.Join(out, ", ")
}

// became reports whether the agent says of a pod what is to become of it.
func (h attack) became(p *v1.Pod) bool {
	if p == nil {
		return false
	}
	if h.phase != "" {
		return p.Status.Phase == h.phase && (h.reason == "" || p.Status.Reason == h.reason) && strings.Contains(p.Status.Message, h.says)
	}
	for _, s := range p.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && w.Reason == h.reason {
			return true
		}
	}
	return false
}

// undecided names the manifests of which has not become what is to become of them.
func undecided(a *testAgent, all map[string]attack) error {
	var out []error
	pods, log := a.pods(), a.log()
	for name, h := range all {
		switch p := pods[name]; {
		case h.log != "" && !strings.Contains(log, h.log):
			out = append(out, fmt.Errorf("%s: no %q in the log", name, h.log))
		case h.log == "" && p == nil:
			out = append(out, fmt.Errorf("%s: no pod", name))
		case h.log == "" && !h.became(p):
			out = append(out, fmt.Errorf("%s: %s %s %s, want %s %s %s", name, podStatus(p), p.Status.Reason, p.Status.Message, h.phase, h.reason, h.says))
		}
	}
	return errors.Join(out...)
}

// TestContainerdHostileTenant: SECURITY.md. What a tenant's manifests ask for, and its containers
// do, harms no other pod: each comes to its end, the operator's pods do not notice, the agent does
// not grow, and nothing of it is left when the tenant is gone.
func TestContainerdHostileTenant(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	root := rootOf(args)
	asked := &tenant{manifests: map[string]string{}}
	server := httptest.NewServer(asked)
	defer server.Close()
	all := attacks(runtime.Image)
	args = append(args, "--eviction-hard", "memory.available<1Mi") // limits of pods are looked at every 10 s
	for name, h := range all {
		asked.manifests[name] = h.manifest
		args = append(args, "--manifest-url", server.URL+"/"+name)
	}
	t.Logf("%d manifests", len(all))
	asked.withdrawn = true // until the operator's pods run
	victim := inName(pod("victim", runtime.Image, "sleep 100000", "  hostNetwork: true", "  terminationGracePeriodSeconds: 1"), "uid: "+victimUID)
	writeManifest(t, manifests, "victim.yaml", victim)
	a := startAgent(t, args...)
	others := runBystanders(t, runtime, a, manifests, 9)
	before := a.awaitPhase("victim", v1.PodRunning)
	a.resident() // what the first answers cost is not the tenant's
	had := a.resident()

	asked.mu.Lock()
	asked.withdrawn = false
	asked.mu.Unlock()
	for _, name := range []string{"deep", "wide"} {
		fill(t, name, emptyDirOf(root, a.awaitPhase(name, v1.PodRunning)))
	}
	await(t, "what becomes of each manifest", func() error { return undecided(a, all) })
	startsInTime(t, runtime, a, manifests, "late", patience.Of(5*time.Second))
	others.check(a)
	if after := a.awaitPhase("victim", v1.PodRunning); after.UID != victimUID || containerIDs(after)["main"] != containerIDs(before)["main"] {
		t.Errorf("the victim is %s with %v, was %v", after.UID, containerIDs(after), containerIDs(before))
	}
	if logs := sizeOf(t, filepath.Join(root, "logs")); logs > 60<<20 {
		t.Errorf("%d bytes of logs", logs)
	}
	grew := a.resident() - had
	t.Logf("the agent had %d KiB and has %d KiB more", had, grew)
	if grew > memoryLimitKiB {
		t.Errorf("the agent grew by %d KiB, want %d at most", grew, memoryLimitKiB)
	}
	a.printsNoControls()

	asked.withdraw()
	gone := time.Now()
	await(t, "nothing of the tenant to be left", func() error { return nothingBut(root, a, len(others.before)+2) })
	t.Logf("nothing of the tenant was left after %v", time.Since(gone).Round(time.Second))
	others.check(a)
}

// nothingBut returns what there is beside n pods: pods, folders and logs.
func nothingBut(root string, a *testAgent, n int) error {
	if pods := a.pods(); len(pods) > n {
		return fmt.Errorf("%d pods", len(pods))
	}
	for _, dir := range []string{"pods", "pods.removed", "logs"} {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if dir == "pods.removed" && len(entries) > 0 || len(entries) > n {
			return fmt.Errorf("%d entries in %s", len(entries), dir)
		}
	}
	return nil
}

func emptyDirOf(root string, p *v1.Pod) string {
	return filepath.Join(root, "pods", string(p.UID), "volumes/kubernetes.io~empty-dir/data")
}

// fill does what a container's own programs would need minutes for: a tree of many levels, or
// a folder of many files.
func fill(t *testing.T, name, dir string) {
	t.Helper()
	fd, err := syscall.Open(dir, syscall.O_DIRECTORY|syscall.O_RDONLY, 0)
	if name == "wide" {
		for i := 0; err == nil && i < *tenantFiles; i++ {
			var file int
			file, err = syscall.Openat(fd, strconv.Itoa(i), syscall.O_CREAT|syscall.O_WRONLY, 0o600)
			_ = syscall.Close(file)
		}
	} else {
		for i := 0; err == nil && i < *tenantLevels; i++ {
			if err = syscall.Mkdirat(fd, "d", 0o755); err == nil {
				above := fd
				fd, err = syscall.Openat(above, "d", syscall.O_DIRECTORY|syscall.O_RDONLY, 0)
				_ = syscall.Close(above)
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Close(fd)
}

// resident is the agent's resident memory in KiB.
func (a *testAgent) resident() int {
	a.t.Helper()
	n, err := strconv.Atoi(strings.TrimSuffix(memoryOf(a.t, a.cmd.Process.Pid)["VmRSS"], " kB"))
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

// printsNoControls checks that nothing of what the agent prints can do something to a terminal.
func (a *testAgent) printsNoControls() {
	a.t.Helper()
	controls := regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202a-\u202e\u2066-\u2069]")
	if at := controls.FindStringIndex(a.log()); at != nil {
		a.t.Errorf("the log has a control character: %q", a.log()[max(0, at[0]-100):at[1]+20])
	}
	if _, text := a.get("/problems"); controls.MatchString(text) {
		a.t.Errorf("/problems has a control character: %q", text)
	}
}

func sizeOf(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}
