package agenttest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/tale"
	"github.com/podwright/podwright/kube"
	"github.com/podwright/podwright/kube/internal/memoryapi"
	"github.com/podwright/podwright/kube/node"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

const (
	nodeName = "edge-1"
	// down is how long no agent runs after a kill: the fake's calls under way, and events that
	// cannot be sent, take a while to end.
	down = 6 * time.Second
	// calmFor is how long an agent runs before the world is looked at.
	calmFor = 20 * time.Second
)

// world is where one life takes place: what outlives its agents.
type world struct {
	t      *testing.T
	api    *memoryapi.Server
	admin  kubernetes.Interface
	rt     *fake.Runtime
	root   string
	deaths []death
	static []*v1.Pod
	tale   *tale.Tale

	mu sync.Mutex
	// containers are those that were made.
	containers map[container]bool

	// slow is how long calls take that are named in it, such as "WATCH services".
	slow map[string]time.Duration
	// whenGone is the policy of the agents.
	whenGone kube.Policy
	// machine is the system UUID of the machine.
	machine string

	ways   []*way
	agent  *agent
	source *source.Channel
	// up is when the present agent was started; next is closed when the next one may start,
	// nil while one runs.
	up    time.Time
	next  chan struct{}
	kills []time.Time
}

// container names one in all lives.
type container struct {
	pod  types.UID
	name string
}

// agent is one process.
type agent struct {
	engine *podwright.Engine
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// newWorld is one without an agent.
func newWorld(t *testing.T, l life, deaths []death) *world {
	w := &world{t: t, machine: "system-1", api: memoryapi.New(nil), root: filepath.Join(t.TempDir(), "root"), deaths: deaths, tale: tale.New(), containers: map[container]bool{}}
	w.admin = kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://api", Transport: w.api.Transport(""), QPS: -1})
	w.rt = fake.New(fake.Options{
		Script: func(launch fake.Launch) fake.Script {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.containers[container{launch.PodUID, launch.Container}] = true
			return l.scripts[launch.Container](launch)
		},
		Registry: func(string, *runtimeapi.AuthConfig) fake.Pull { return fake.Pull{Took: 300 * time.Millisecond} },
	})
	t.Cleanup(func() { // a test that fails leaves pods
		if err := unmountBelow(w.root); err != nil {
			t.Error(err)
		}
	})
	for method, takes := range map[fake.Method]time.Duration{
		fake.RunPodSandbox: 400 * time.Millisecond, fake.CreateContainer: 200 * time.Millisecond, fake.StartContainer: 200 * time.Millisecond,
		fake.StopPodSandbox: 100 * time.Millisecond, fake.RemoveContainer: 100 * time.Millisecond, fake.RemovePodSandbox: 100 * time.Millisecond,
	} {
		w.rt.Inject(fake.Fault{Match: fake.Match{Method: method}, Effect: fake.Effect{Delay: takes}})
	}
	return w
}

// startAfter starts the first agent, now or after as long as an agent is away after a kill.
func (w *world) startAfter(late bool) {
	if !late {
		w.start()
		return
	}
	next := make(chan struct{})
	w.next = next
	time.AfterFunc(down, func() { close(next) })
}

// start starts the next agent.
func (w *world) start() {
	var d death
	if len(w.ways) < len(w.deaths) {
		d = w.deaths[len(w.ways)]
	}
	link := newWay(w.api.Transport(nodeName), d)
	link.slow = w.slow
	w.ways = append(w.ways, link)
	w.source = source.NewChannel(source.ChannelOptions{NodeName: nodeName})
	config := podwright.Config{
		Runtime: w.rt, Images: w.rt, RootDir: w.root, Sources: []syncloop.Source{w.source},
		Node: podwright.Node{Name: nodeName, BootID: "boot-1"},
	}
	config.Checkpoints.Reserve = -1                // a megabyte per life
	config.Workers.DrainTimeout = time.Millisecond // whoever is killed finishes nothing
	shown := node.Options{
		Capacity: func() v1.ResourceList {
			return v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourcePods: resource.MustParse("110")}
		},
		Info: v1.NodeSystemInfo{MachineID: "machine-1", SystemUUID: w.machine},
	}
	o := kube.Options{Config: &rest.Config{Host: "http://api", Transport: discreet{link}}, Node: shown, WhenGone: w.whenGone}
	part, err := kube.New(o, &config)
	if err != nil {
		w.t.Fatal(err)
	}
	a := &agent{ended: make(chan struct{})}
	if a.engine, err = podwright.New(config); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	a.cancel = cancel
	go func() {
		defer close(a.ended)
		a.err = part.Run(ctx, a.engine)
	}()
	w.agent, w.up, w.next = a, time.Now(), nil
	w.tell()
}

// discreet hides the type of a transport, which client-go would look into.
type discreet struct{ http.RoundTripper }

// tell tells the agent its static pods.
func (w *world) tell() {
	if w.next != nil {
		return // the next one is told when it starts
	}
	var pods []*v1.Pod
	for _, p := range w.static {
		pods = append(pods, p.DeepCopy())
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	killed := w.ways[len(w.ways)-1].killed // not of a later agent
	go func() {
		select {
		case <-killed:
			cancel()
		case <-ctx.Done():
		}
	}()
	// An agent that drains from its start does not ask its source, or not for long.
	if err := w.source.Set(ctx, pods); err != nil && ctx.Err() == nil && !errors.Is(err, source.ErrClosed) {
		w.t.Fatal(err)
	}
}

// pass lets time go by, with another agent for each that dies.
func (w *world) pass(d time.Duration) {
	over := time.After(d)
	for {
		var killed chan struct{} // nil while there is none to be killed
		if w.next == nil {
			killed = w.ways[len(w.ways)-1].killed
		}
		select {
		case <-killed:
			w.bury()
		case <-w.next:
			w.start()
		case <-over:
			return
		}
	}
}

// awaitCalm returns when an agent has run for a while undisturbed.
func (w *world) awaitCalm() {
	for w.next != nil || time.Since(w.up) < calmFor {
		w.pass(time.Second)
	}
	synctest.Wait()
}

// bury takes away what is left of a killed agent. The next one finds the disk and the runtime of the moment of
// the death.
func (w *world) bury() {
	w.kills = append(w.kills, time.Now())
	synctest.Wait()
	saved := w.root + ".saved"
	if err := sameTree(saved, w.root); err != nil {
		w.t.Fatal(err)
	}
	revive := w.rt.Inject(fake.Fault{Effect: fake.Effect{Err: errDead}})
	dead, buried := w.agent, w.ways[len(w.ways)-1].buried
	dead.cancel()
	close(buried)
	next := make(chan struct{})
	w.next = next
	again := time.After(down)
	go func() {
		defer close(next)
		<-dead.ended
		revive()
		if err := errors.Join(sameTree(w.root, saved), os.RemoveAll(saved)); err != nil {
			w.t.Error(err)
		}
		<-again
	}()
}

// stop ends the last agent as SIGTERM does.
func (w *world) stop() {
	for w.next != nil {
		w.pass(time.Second)
	}
	w.agent.cancel()
	if last := w.ways[len(w.ways)-1]; last.isDead() { // it was killed in the last moment
		close(last.buried)
	}
	<-w.agent.ended
	if w.agent.err != nil {
		w.t.Errorf("Run: %v", w.agent.err)
	}
}

// look takes down what there is of the pods of a life, on the disk too.
func (w *world) look(uids ...types.UID) {
	w.awaitCalm()
	view := cri.NewView(w.rt, cri.ViewOptions{})
	var lines []string
	for _, uid := range uids {
		pod, err := view.Read(w.t.Context(), uid)
		if err != nil {
			w.t.Fatal(err)
		}
		lines = append(lines, tale.Objects(string(uid), pod)...)
		lines = append(lines, w.files(string(uid))...)
	}
	w.tale.See(lines)
}

// lasting is the end of a token's text that differs between lives.
var lasting = regexp.MustCompile(` until .*`)

// files are those in the volumes of a pod.
func (w *world) files(uid string) (lines []string) {
	dir := filepath.Join(w.root, "pods", uid)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		short := strings.TrimPrefix(path, dir+"/")
		if entry.Type()&fs.ModeSymlink == 0 || strings.HasPrefix(filepath.Base(path), "..") || !strings.HasPrefix(short, "volumes/") {
			return nil // the link of a file leads to its content
		}
		content, err := os.ReadFile(path)
		lines = append(lines, fmt.Sprintf("%s %s: %s", uid, short, lasting.ReplaceAllString(string(content), "")))
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Error(err)
	}
	return lines
}

// create makes a pod with the UID of its name and life.
func (w *world) create(pod *v1.Pod) {
	if _, err := w.admin.CoreV1().Pods(pod.Namespace).Create(w.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// remove deletes a pod; a negative grace is the pod's own.
func (w *world) remove(name string, grace int64) {
	o := metav1.DeleteOptions{}
	if grace >= 0 {
		o.GracePeriodSeconds = &grace
	}
	if err := w.admin.CoreV1().Pods("default").Delete(w.t.Context(), name, o); err != nil {
		w.t.Errorf("delete %s: %v", name, err)
	}
}

// setConfig makes or changes the config map app.
func (w *world) setConfig(text string) {
	o := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "default"}, Data: map[string]string{"key": text}}
	maps := w.admin.CoreV1().ConfigMaps("default")
	_, err := maps.Update(w.t.Context(), o, metav1.UpdateOptions{})
	if err != nil {
		_, err = maps.Create(w.t.Context(), o, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// prepare makes what pods refer to.
func (w *world) prepare() {
	core := w.admin.CoreV1()
	_, a := core.ServiceAccounts("default").Create(w.t.Context(), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "default"}, Data: map[string][]byte{"key": []byte("hidden")}}
	_, b := core.Secrets("default").Create(w.t.Context(), secret, metav1.CreateOptions{})
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Namespace: "default"}, Spec: v1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: []v1.ServicePort{{Port: 443}}}}
	_, c := core.Services("default").Create(w.t.Context(), service, metav1.CreateOptions{})
	if err := errors.Join(a, b, c); err != nil {
		w.t.Fatal(err)
	}
}

// removeNode deletes the Node, and soon what it owns goes too.
func (w *world) removeNode() {
	if err := w.admin.CoreV1().Nodes().Delete(w.t.Context(), nodeName, metav1.DeleteOptions{}); err != nil {
		w.t.Error(err)
	}
	w.pass(2 * time.Second)
	w.api.CollectGarbage()
}
