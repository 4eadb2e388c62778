//go:build containerd

package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

const (
	nodeName = "edge"
	nodeIP   = "192.0.2.1"
)

var (
	only = flag.String("conformance.only", "*", "names of the manifests to run, with wildcards")
	// By default far beyond what is needed, so that a loaded machine fails nothing.
	wait = flag.Duration("conformance.wait", patience.Of(3*time.Minute), "how long all pods together may take")
)

// TestContainerdConformance runs every pod of the folder at once on one
// containerd and waits until each is as it expects to be.
func TestContainerdConformance(t *testing.T) {
	n := startNode(t)
	var names []string
	files, err := filepath.Glob("manifests/" + *only + ".yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	for _, file := range files {
		n.add(file)
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".yaml"))
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) { n.expect(t, name) })
	}
}

// node is an engine on a private containerd, and what was seen of its pods.
type node struct {
	t         *testing.T
	engine    *podwright.Engine
	manifests string
	logs      string
	words     *strings.Replacer
	until     time.Time // when patience with all pods together ends

	mu     sync.Mutex
	events map[string][]string      // pod name → reasons
	last   map[string]status.Update // pod name → newest status
}

// startNode runs an engine; change, if given, may alter what it is made of.
func startNode(t *testing.T, change ...func(*containerdtest.Instance, *podwright.Config)) *node {
	t.Helper()
	rt := containerdtest.Start(t)
	registry := containerdtest.ServeRegistry(t, containerdtest.RegistryOptions{Username: "user", Password: "pass"})
	address, _, _ := strings.Cut(registry.Image, "/")
	n := &node{
		t: t, manifests: t.TempDir(), logs: t.TempDir(), until: time.Now().Add(*wait),
		events: map[string][]string{}, last: map[string]status.Update{},
		words: strings.NewReplacer(
			"image: busybox", "image: "+rt.Image,
			"${SCRATCH}", t.TempDir(), "${REGISTRY}", address, "${PRIVATE_IMAGE}", registry.Image,
		),
	}
	client, err := cri.Dial(t.Context(), rt.Endpoint, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	files, err := source.NewFile(n.manifests, nodeName, source.FileOptions{AllowAPIReferences: true})
	if err != nil {
		t.Fatal(err)
	}
	config := podwright.Config{
		Runtime: client, Images: client, Sources: []syncloop.Source{files},
		RootDir: t.TempDir(), Storage: podwright.Storage{LogDir: n.logs},
		Node:    podwright.Node{Name: nodeName, IPs: []string{nodeIP}},
		Observe: podwright.Observe{Sinks: []status.StatusSink{n}, Events: n},
		Pods:    pods.Options{Objects: readObjects(t, address), MaxParallelImagePulls: 4},
	}
	for _, c := range change {
		c(rt, &config)
	}
	if n.engine, err = podwright.New(config); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- n.engine.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the engine ended with: %v", err)
		}
	})
	return n
}

// add puts a manifest into the node's folder, as a user would.
func (n *node) add(file string) {
	n.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		n.t.Fatal(err)
	}
	path := filepath.Join(n.manifests, filepath.Base(file))
	if err := os.WriteFile(path+".new", []byte(n.words.Replace(string(text))), 0o600); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		n.t.Fatal(err)
	}
}

// Store is the node's status sink.
func (n *node) Store(_ context.Context, u status.Update) (status.StoreResult, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last[u.Name] = u
	return status.Stored, nil
}

// Eventf is the node's event recorder.
func (n *node) Eventf(object apiruntime.Object, _, reason, _ string, _ ...any) {
	name := ""
	switch o := object.(type) {
	case *v1.Pod:
		name = o.Name
	case *v1.ObjectReference:
		name = o.Name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events[name] = append(n.events[name], reason)
}

// removal is how long a removed pod may take, however late its turn came.
var removal = patience.Of(time.Minute)

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// expect waits until the pod of a manifest is as it expects to be.
func (n *node) expect(t *testing.T, manifest string) {
	name := manifest + "-" + nodeName
	var pod *v1.Pod
	n.await(t, name, n.until, func() []string {
		if pod = n.pod(name); pod == nil {
			return []string{"the engine does not have the pod"}
		}
		life, _ := Of(pod)
		return life.Check(n.observe(pod, pod.Status))
	})
	_, deleted := Of(pod)
	if deleted == nil {
		return
	}
	if err := os.Remove(filepath.Join(n.manifests, manifest+".yaml")); err != nil {
		t.Fatal(err)
	}
	n.await(t, name, latest(n.until, time.Now().Add(removal)), func() []string {
		n.mu.Lock()
		last := n.last[name]
		n.mu.Unlock()
		if !last.Finished {
			return []string{"the pod has not ended"}
		}
		return deleted.Check(n.observe(pod, *last.Status))
	})
}

func (n *node) pod(name string) *v1.Pod {
	for _, p := range n.engine.Pods() {
		if p.Name == name {
			return &p
		}
	}
	return nil
}

// observe gathers what there is to see of a pod.
func (n *node) observe(pod *v1.Pod, s v1.PodStatus) Observed {
	n.mu.Lock()
	o := Observed{Status: s, Events: slices.Clone(n.events[pod.Name]), Logs: map[string]string{}}
	n.mu.Unlock()
	dir := filepath.Join(n.logs, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			files, _ := filepath.Glob(filepath.Join(dir, c.Name, "*.log"))
			slices.SortFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
			for _, file := range files {
				o.Logs[c.Name] += logText(file)
			}
		}
	}
	return o
}

// logText reads a log file of the CRI form: time, stream, tag, text.
func logText(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for line := range strings.Lines(string(data)) {
		fields := strings.SplitN(strings.TrimRight(line, "\r\n"), " ", 4)
		if len(fields) < 4 {
			continue
		}
		text.WriteString(strings.TrimRight(fields[3], "\r"))
		if fields[2] == "F" {
			text.WriteString("\n")
		}
	}
	return text.String()
}

// await polls until nothing is wrong any more, or until then.
func (n *node) await(t *testing.T, name string, until time.Time, wrong func() []string) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	deadline := time.After(time.Until(until))
	for {
		problems := wrong()
		if len(problems) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			n.mu.Lock()
			events := map[string]int{}
			for _, reason := range n.events[name] {
				events[reason]++
			}
			n.mu.Unlock()
			text, _ := json.Marshal(n.pod(name))
			t.Fatalf("not as expected after waiting %v:\n  %s\nevents: %v\n%s", time.Since(began).Round(time.Second), strings.Join(problems, "\n  "), events, text)
		}
	}
}
