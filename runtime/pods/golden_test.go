package pods_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

var update = flag.Bool("update", false, "write what the golden tests see into their files")

// golden is what the runtime was asked for because of one manifest.
type golden struct {
	Sandbox        json.RawMessage   `json:"sandbox,omitempty"`
	RuntimeHandler string            `json:"runtimeHandler,omitempty"`
	Containers     []json.RawMessage `json:"containers,omitempty"`
	// Waiting and Warnings tell what was not asked for, and why.
	Waiting  map[string]string `json:"waiting,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
}

// Every manifest in testdata/golden gives exactly the requests in the JSON file
// beside it (spec/runtime.md 2, 3, 4, 11-14). The manifest's comment says what to
// look at; a line "# node:" names settings of the node. Values that are the
// protocol's zero are not shown: network and ipc POD, seccomp RuntimeDefault.
// `go test -run TestGolden -update` writes the files again; check the difference.
func TestGolden(t *testing.T) {
	manifests, err := filepath.Glob("testdata/golden/*.yaml")
	if err != nil || len(manifests) < 30 {
		t.Fatalf("%d manifests, err %v", len(manifests), err)
	}
	for _, path := range manifests {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testGolden(t, path) })
		})
	}
}

func testGolden(t *testing.T, path string) {
	manifest, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pod := &v1.Pod{}
	if err := yaml.UnmarshalStrict(manifest, pod); err != nil {
		t.Fatal(err)
	}
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = v1.RestartPolicyAlways
	}
	w := goldenWorld(t, manifest)
	for range 12 {
		if r := w.sync(pod); !r.Acted && !r.Again {
			break
		}
	}
	got := w.golden(pod)
	want := strings.TrimSuffix(path, ".yaml") + ".json"
	if *update {
		if err := os.WriteFile(want, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(text), string(got)); d != "" {
		t.Errorf("%s (-file +got):\n%s", want, d)
	}
}

// goldenWorld is a node that is the same on every machine.
func goldenWorld(t *testing.T, manifest []byte) *world {
	t.Helper()
	w := &world{t: t, events: &events{}}
	w.fake = fake.New(fake.Options{
		Script: func(l fake.Launch) fake.Script {
			if strings.HasPrefix(l.Config.Metadata.Name, "init") {
				return fake.Script{Exit: &fake.Exit{}}
			}
			return fake.Script{}
		},
		Registry: goldenRegistry,
		Handlers: goldenHandlers(manifest), Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
	})
	resolver := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(resolver, []byte("nameserver 192.0.2.53\nsearch example.com\noptions timeout:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.opts = pods.Options{
		RootDir: t.TempDir(), LogDir: t.TempDir(), OwnerID: "node1", NodeName: "node1", ResolvConf: resolver,
		HostIPs: func() []string { return []string{"192.0.2.7", "2001:db8::7"} }, Events: w.events,
		Machine: &pods.Machine{
			MemoryCapacity: 16 << 30, SwapCapacity: 8 << 30,
			MaskedPaths: []string{"/sys/devices/system/cpu/cpu0/thermal_throttle"},
		},
		Allocatable: func() v1.ResourceList { return v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")} },
		Rand:        rand.New(rand.NewSource(1)),
	}
	for line := range strings.Lines(string(manifest)) {
		if settings, ok := strings.CutPrefix(line, "# node:"); ok {
			for _, s := range strings.Fields(settings) {
				goldenSetting(t, &w.opts, s)
			}
		}
	}
	w.restart()
	return w
}

// goldenSetting changes the node as a manifest asks for.
func goldenSetting(t *testing.T, o *pods.Options, name string) {
	settings := map[string]func(){
		"cgroup-root": func() { o.CgroupRoot = "/own/part-of" },
		"cgroup-v2":   func() { o.Machine.CgroupV2 = true },
		"cgroupfs":    func() { o.CgroupDriver = "cgroupfs" },
		"classes": func() {
			o.RuntimeClasses = classes{"vm": {Handler: "kata", Overhead: v1.ResourceList{v1.ResourceMemory: resource.MustParse("120Mi")}}}
		},
		"cluster-dns": func() { o.ClusterDNS, o.ClusterDomain = []string{"10.96.0.10"}, "cluster.example" },
		"default-sysctls": func() {
			o.DefaultSysctls = map[string]string{"net.core.somaxconn": "512", "net.ipv4.tcp_syncookies": "1", "kernel.shmmax": "1"}
		},
		"hugepages":         func() { o.Machine.HugePageSizes = []int64{64 << 10, 2 << 20, 1 << 30} },
		"limited-swap":      func() { o.LimitedSwap = true },
		"memory-qos":        func() { o.MemoryQoS.Enabled = true },
		"no-managed-mounts": func() { o.NoManagedMounts = true },
		"no-quota":          func() { o.NoCPUQuota = true },
		"no-resolv-conf":    func() { o.NoResolvConf = true },
		"objects":           func() { o.Objects = goldenObjects{} },
		"quota-period":      func() { o.CPUQuotaPeriod = 20 * time.Millisecond },
		"seccomp-default":   func() { o.SeccompDefault = true },
		"swap-controller":   func() { o.Machine.SwapController = true },
		"systemd":           func() { o.CgroupDriver = "systemd" },
		"tiered":            func() { o.MemoryQoS.TieredReservation = true },
		"user-namespaces":   func() {}, // see goldenHandlers
	}
	set, ok := settings[name]
	if !ok {
		t.Fatalf("unknown setting %q", name)
	}
	set()
}

func goldenHandlers(manifest []byte) []*runtimeapi.RuntimeHandler {
	able := bytes.Contains(manifest, []byte("user-namespaces"))
	return []*runtimeapi.RuntimeHandler{{Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: able}}}
}

// goldenRegistry has images whose names say which user they run as.
func goldenRegistry(ref string, _ *runtimeapi.AuthConfig) fake.Pull {
	name, _, _ := strings.Cut(filepath.Base(ref), ":")
	var image fake.Image
	if text, ok := strings.CutPrefix(name, "uid-"); ok {
		if uid, err := strconv.ParseInt(text, 10, 64); err == nil {
			image.UID = &uid
		}
	}
	if user, ok := strings.CutPrefix(name, "user-"); ok {
		image.Username = user
	}
	return fake.Pull{Image: image}
}

type goldenObjects struct{}

func (goldenObjects) GetConfigMap(_ context.Context, _, name string) (*v1.ConfigMap, error) {
	if name != "settings" {
		return nil, runtime.ErrNotFound
	}
	return &v1.ConfigMap{Data: map[string]string{"color": "blue", "size": "large"}}, nil
}

func (goldenObjects) GetSecret(_ context.Context, _, name string) (*v1.Secret, error) {
	if name != "login" {
		return nil, runtime.ErrNotFound
	}
	return &v1.Secret{Data: map[string][]byte{"password": []byte("swordfish")}}, nil
}

// golden tells what was asked for, folders of this run replaced by the usual ones.
func (w *world) golden(pod *v1.Pod) []byte {
	w.t.Helper()
	var out golden
	if r := w.lastSandbox(); r != nil {
		out.Sandbox, out.RuntimeHandler = w.protoJSON(r.Config), r.RuntimeHandler
	}
	for _, c := range w.fake.Calls(fake.Match{Method: fake.CreateContainer}) {
		out.Containers = append(out.Containers, w.protoJSON(c.Request.(*runtimeapi.CreateContainerRequest).Config))
	}
	for name, reason := range w.m.WaitingReasons(pod.UID) {
		if out.Waiting == nil {
			out.Waiting = map[string]string{}
		}
		out.Waiting[name] = reason.Reason + ": " + reason.Message
	}
	for _, e := range w.events.list() {
		again := strings.HasSuffix(e, " over 0s)")
		if strings.HasPrefix(e, v1.EventTypeWarning) && !again && !slices.Contains(out.Warnings, e) {
			out.Warnings = append(out.Warnings, e)
		}
	}
	slices.Sort(out.Warnings)
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(out); err != nil {
		w.t.Fatal(err)
	}
	return []byte(strings.NewReplacer(w.opts.RootDir, "/var/lib/podwright", w.opts.LogDir, "/var/log/pods").Replace(text.String()))
}

// protoJSON writes a message without the random spaces of its encoder.
func (w *world) protoJSON(m proto.Message) json.RawMessage {
	w.t.Helper()
	raw, err := protojson.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		w.t.Fatal(fmt.Errorf("compact: %w", err))
	}
	return compact.Bytes()
}
