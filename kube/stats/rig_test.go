package stats

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods"
)

// machineRoot is a machine in a folder: /proc and the cgroups of one version.
type machineRoot struct {
	tb             testing.TB
	proc, cgroups  string
	unified        bool
	containers     *containers
	engine         *engine
	sandboxCreated time.Time
}

func newMachine(tb testing.TB, unified bool) *machineRoot {
	tb.Helper()
	dir := tb.TempDir()
	m := &machineRoot{
		tb: tb, proc: filepath.Join(dir, "proc"), cgroups: filepath.Join(dir, "cgroup"), unified: unified,
		containers: &containers{stats: map[string]*runtimeapi.ContainerStats{}}, engine: &engine{}, sandboxCreated: time.Unix(1000, 0),
	}
	for name, text := range map[string]string{
		"stat":                   "cpu  100 20 30 4000 5 6 7 8 0 0\ncpu0 1 0 0 0 0 0 0 0 0 0\ncpu1 1 0 0 0 0 0 0 0 0 0\nbtime 900\n",
		"meminfo":                "MemTotal:        1000 kB\nMemFree:          300 kB\nAnonPages:        200 kB\nInactive(file):   100 kB\nSwapTotal:        50 kB\nSwapFree:         40 kB\n",
		"vmstat":                 "pgfault 77\npgmajfault 7\n",
		"loadavg":                "0.1 0.2 0.3 2/345 678\n",
		"sys/kernel/pid_max":     "4194304\n",
		"diskstats":              "   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n",
		"pressure/cpu":           "some avg10=1.50 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n",
		"self/net/dev":           devTable("enp1s0", 1000, 10) + "vethab12: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n",
		"self/net/route":         "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\nenp1s0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n",
		"sys/kernel/threads-max": "3000000\n",
	} {
		m.write(filepath.Join(m.proc, name), text)
	}
	if unified {
		m.write(filepath.Join(m.cgroups, "cgroup.controllers"), "cpu memory io pids\n")
		return m
	}
	for _, tree := range []string{"cpu,cpuacct", "memory", "blkio", "pids"} {
		m.mkdir(filepath.Join(m.cgroups, tree))
	}
	return m
}

func devTable(name string, bytes, packets int) string {
	return "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n" +
		"    lo:       9       9    0    0    0     0          0         0        9       9    0    0    0     0       0          0\n" +
		fmt.Sprintf("%6s: %d %d 1 2 0 0 0 0 %d %d 3 4 0 0 0 0\n", name, bytes, packets, 2*bytes, 2*packets)
}

func (m *machineRoot) mkdir(dir string) {
	m.tb.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.tb.Fatal(err)
	}
}

func (m *machineRoot) write(path, text string) {
	m.tb.Helper()
	m.mkdir(filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.tb.Fatal(err)
	}
}

// cgroup writes the files of one: seconds of CPU, bytes of memory of which a tenth is idle, and its
// first process.
func (m *machineRoot) cgroup(path string, cpu time.Duration, memory, process int) {
	m.tb.Helper()
	files := map[string]string{
		"cpu.stat":            fmt.Sprintf("usage_usec %d\nuser_usec 1\nnr_periods 50\nnr_throttled 5\nthrottled_usec 2000\n", cpu.Microseconds()),
		"cpu.weight":          "39\n",
		"cpu.max":             "50000 100000\n",
		"memory.current":      fmt.Sprintln(memory),
		"memory.max":          "max\n",
		"memory.stat":         fmt.Sprintf("anon %d\nfile %d\ninactive_file %d\npgfault 12\npgmajfault 3\n", memory/2, memory/4, memory/10),
		"memory.swap.current": "64\n",
		"memory.pressure":     "some avg10=0.00 avg60=0.00 avg300=0.00 total=8\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=4\n",
		"io.stat":             "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n",
		"pids.current":        "3\n",
		"cgroup.procs":        fmt.Sprintln(process),
	}
	if !m.unified {
		files = map[string]string{
			"cpu,cpuacct/cpuacct.usage":    fmt.Sprintln(cpu.Nanoseconds()),
			"cpu,cpuacct/cpu.stat":         "nr_periods 50\nnr_throttled 5\nthrottled_time 2000000\n",
			"cpu,cpuacct/cpu.shares":       "998\n",
			"cpu,cpuacct/cpu.cfs_quota_us": "50000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
			"memory/memory.usage_in_bytes": fmt.Sprintln(memory), "memory/memory.limit_in_bytes": "9223372036854771712\n",
			"memory/memory.stat":                              fmt.Sprintf("cache 1\ntotal_rss %d\ntotal_cache %d\ntotal_swap 64\ntotal_inactive_file %d\ntotal_pgfault 12\ntotal_pgmajfault 3\n", memory/2, memory/4, memory/10),
			"memory/cgroup.procs":                             fmt.Sprintln(process),
			"pids/pids.current":                               "3\n",
			"blkio/blkio.throttle.io_service_bytes_recursive": "8:0 Read 4096\n8:0 Write 8192\n8:0 Sync 0\n8:0 Total 12288\nTotal 12288\n",
			"blkio/blkio.throttle.io_serviced_recursive":      "8:0 Read 1\n8:0 Write 2\n8:0 Total 3\nTotal 3\n",
		}
	}
	for name, text := range files {
		tree, file := filepath.Split(name)
		m.write(filepath.Join(m.cgroups, tree, path, file), text)
	}
	m.write(filepath.Join(m.proc, fmt.Sprint(process), "net/dev"), devTable("eth0", 500, 5))
}

// pod adds a pod with a ready sandbox "sandbox-NAME" and no container yet.
func (m *machineRoot) pod(name string) *v1.Pod {
	pod := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)}}
	m.engine.pods = append(m.engine.pods, pod)
	m.containers.sandboxes = append(m.containers.sandboxes, &runtimeapi.PodSandbox{
		Id: "sandbox-" + name, CreatedAt: m.sandboxCreated.UnixNano(),
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name},
	})
	return &m.engine.pods[len(m.engine.pods)-1]
}

// run adds a running container "ID" of a pod, which the runtime measures if cpu is not 0.
func (m *machineRoot) run(pod, name, id string, attempt uint32, cpu time.Duration, memory uint64) {
	m.containers.mu.Lock()
	defer m.containers.mu.Unlock()
	m.containers.list = append(m.containers.list, &runtimeapi.Container{
		Id: id, PodSandboxId: "sandbox-" + pod, CreatedAt: time.Unix(2000+int64(attempt), 0).UnixNano(), Image: &runtimeapi.ImageSpec{Image: "sha256:1"},
		Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
		Labels:   map[string]string{runtime.LabelPodUID: "uid-" + pod, runtime.LabelContainerName: name},
	})
	if cpu != 0 {
		m.containers.stats[id] = said(id, cpu, memory)
	}
}

// said is what a runtime says of a container.
func said(id string, cpu time.Duration, memory uint64) *runtimeapi.ContainerStats {
	at := time.Unix(5000, 0).UnixNano()
	return &runtimeapi.ContainerStats{
		Attributes:    &runtimeapi.ContainerAttributes{Id: id},
		Cpu:           &runtimeapi.CpuUsage{Timestamp: at, UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: uint64(cpu)}, UsageNanoCores: &runtimeapi.UInt64Value{}},
		Memory:        &runtimeapi.MemoryUsage{Timestamp: at, WorkingSetBytes: &runtimeapi.UInt64Value{Value: memory}, UsageBytes: &runtimeapi.UInt64Value{Value: memory}, RssBytes: &runtimeapi.UInt64Value{Value: memory / 2}, AvailableBytes: &runtimeapi.UInt64Value{}},
		WritableLayer: &runtimeapi.FilesystemUsage{Timestamp: at, FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/"}, UsedBytes: &runtimeapi.UInt64Value{Value: 4096}, InodesUsed: &runtimeapi.UInt64Value{Value: 2}},
	}
}

// end ends a container.
func (m *machineRoot) end(id string) {
	m.containers.mu.Lock()
	defer m.containers.mu.Unlock()
	for i, c := range m.containers.list {
		if c.GetId() == id {
			m.containers.list = append(m.containers.list[:i], m.containers.list[i+1:]...)
			break
		}
	}
	if s := m.containers.stats[id]; s != nil { // what has ended is listed without what it used
		m.containers.stats[id] = &runtimeapi.ContainerStats{Attributes: s.GetAttributes(), WritableLayer: s.GetWritableLayer()}
	}
}

// source returns one over the machine.
func (m *machineRoot) source(configure ...func(*Options)) *Source {
	m.tb.Helper()
	o := Options{Node: "edge-1", Engine: m.engine, Runtime: m.containers, Proc: m.proc, Cgroups: m.cgroups}
	for _, f := range configure {
		f(&o)
	}
	s, err := New(o)
	if err != nil {
		m.tb.Fatal(err)
	}
	return s
}

// engine has pods.
type engine struct {
	pods    []v1.Pod
	storage map[types.UID]pods.LocalStorage
	mounted map[string]pods.MountedVolume
}

func (e *engine) Pods() []v1.Pod { return e.pods }

func (e *engine) LocalStorage(uid types.UID) (pods.LocalStorage, map[string]pods.MountedVolume) {
	return e.storage[uid], e.mounted
}

// containers is a runtime.
type containers struct {
	cri.Reader
	sandboxes []*runtimeapi.PodSandbox

	mu       sync.Mutex
	list     []*runtimeapi.Container
	stats    map[string]*runtimeapi.ContainerStats
	podStats []*runtimeapi.PodSandboxStats // nil: ErrUnimplemented
	podCalls int
	calls    int
	fail     error
	hang     chan struct{} // holds up calls until it is closed; nil: nothing does
}

func (c *containers) ListPodSandboxStats(context.Context, *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.podCalls++
	if c.podStats == nil {
		return nil, runtime.ErrUnimplemented
	}
	return c.podStats, nil
}

func (c *containers) ListContainerStats(ctx context.Context, _ *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	c.mu.Lock()
	c.calls++
	hang, fail := c.hang, c.fail
	stats := maps.Clone(c.stats)
	c.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	var out []*runtimeapi.ContainerStats
	for _, s := range stats {
		out = append(out, s)
	}
	return out, fail
}

func (c *containers) ListPodSandbox(context.Context, *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return c.sandboxes, nil
}

func (c *containers) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*runtimeapi.Container(nil), c.list...), nil
}

// get asks a page and returns its code and lines without comments.
func get(t testing.TB, page http.HandlerFunc, query string) (int, []string) {
	t.Helper()
	w := httptest.NewRecorder()
	page(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/page"+query, nil))
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return w.Code, lines
}

// reply is a client that counts what it gets: keeping it would cost more than a scrape does.
type reply struct {
	header http.Header
	code   int
	bytes  int
}

func (r *reply) Header() http.Header { return r.header }

func (r *reply) WriteHeader(code int) { r.code = code }

func (r *reply) Write(p []byte) (int, error) {
	r.bytes += len(p)
	return len(p), nil
}

// scrape asks a page for what a scraper accepts, and returns the code and size of the answer.
func scrape(tb testing.TB, page http.HandlerFunc, encoding string) (code, bytes int) {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodGet, "/page", nil)
	if encoding != "" {
		r.Header.Set("Accept-Encoding", encoding)
	}
	w := &reply{header: http.Header{}, code: http.StatusOK}
	page(w, r)
	return w.code, w.bytes
}
