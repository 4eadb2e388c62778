package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/kube/certs"
	"github.com/podwright/podwright/kube/internal/memoryapi"
	"github.com/podwright/podwright/kube/node"
	"github.com/podwright/podwright/kube/objects"
	"github.com/podwright/podwright/kube/server"
	runtimefake "github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop/nodehooks"
)

func newConfig(t *testing.T) podwright.Config {
	runtime := runtimefake.New(runtimefake.Options{})
	return podwright.Config{Runtime: runtime, Images: runtime, RootDir: filepath.Join(t.TempDir(), "root"), Node: podwright.Node{Name: "edge-1"}}
}

// TestFillsWhatIsEmpty: fields that an agent set stay, the others are filled.
func TestFillsWhatIsEmpty(t *testing.T) {
	own, err := objects.New(objects.Options{Client: fake.NewClientset()})
	if err != nil {
		t.Fatal(err)
	}
	c := newConfig(t)
	c.Pods.Objects = own
	if _, err := New(Options{Config: &rest.Config{Host: "https://api.example"}, Local: true}, &c); err != nil {
		t.Fatal(err)
	}
	if c.Pods.Objects != any(own) || c.Mirrors.Client != nil {
		t.Error("a field of the agent's own was replaced")
	}
	if len(c.Sources) != 1 || len(c.Observe.Sinks) != 1 || c.Observe.Events == nil || c.NodeHooks.Register == nil || c.Node.Object == nil ||
		c.Pods.Services == nil || c.Pods.RuntimeClasses == nil || c.Pods.Projections.Token == nil {
		t.Errorf("not everything was filled: %+v", c)
	}
	if !c.Pods.EveryEvent {
		t.Error("KV4: repeats are counted by the engine, not by the recorder")
	}
	other := newConfig(t)
	other.Observe.Events = ownEvents{}
	if _, err := New(Options{Config: &rest.Config{Host: "https://api.example"}, Local: true}, &other); err != nil || other.Pods.EveryEvent {
		t.Errorf("an engine with a recorder of its own: every event %t, %v", other.Pods.EveryEvent, err)
	}
}

// ownEvents is a recorder of a program's own.
type ownEvents struct{}

func (ownEvents) Eventf(apiruntime.Object, string, string, string, ...any) {}

// TestEngineHasWhatTheNodeShows (KN13): what pods may have is less than the capacity by what is reserved and by the hard
// limits of eviction, for the engine as for the scheduler. An engine that says itself what pods may have keeps it.
func TestEngineHasWhatTheNodeShows(t *testing.T) {
	c := newConfig(t)
	c.Eviction = &podwright.Eviction{}
	all := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("1Gi"), v1.ResourcePods: resource.MustParse("110")}
	o := Options{Config: &rest.Config{Host: "https://api.example"}, Local: true, Node: node.Options{
		Capacity: func() v1.ResourceList { return all }, Reserved: v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m")},
	}}
	a, err := New(o, &c)
	if err != nil {
		t.Fatal(err)
	}
	want := v1.ResourceList{v1.ResourceCPU: resource.MustParse("3500m"), v1.ResourceMemory: resource.MustParse("924Mi")}
	if diff := cmp.Diff(want, c.Node.AllocatableNow()); diff != "" {
		t.Error(diff)
	}
	want[v1.ResourcePods] = resource.MustParse("110")
	if diff := cmp.Diff(want, a.registrar.Allocatable()); diff != "" {
		t.Error(diff)
	}
	own := newConfig(t)
	own.Node.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	if _, err := New(o, &own); err != nil || own.Node.AllocatableNow != nil {
		t.Errorf("an engine's own: %v", err)
	}
}

// TestOnePodLimit (KN13): the engine admits as many pods as the Node shows, wherever the number is set. An engine may say
// that it has no limit.
func TestOnePodLimit(t *testing.T) {
	for name, c := range map[string]struct{ shown, admitted, want, wantAdmitted int }{
		"neither":           {0, 0, 110, 0},
		"of the Node":       {50, 0, 50, 50},
		"of admission":      {0, 50, 50, 50},
		"both":              {50, 50, 50, 50},
		"two":               {50, 30, 0, 0},
		"explicitly no end": {50, -1, 50, -1},
	} {
		config := newConfig(t)
		config.Admission.MaxPods = c.admitted
		a, err := New(Options{Config: &rest.Config{Host: "https://api.example"}, Local: true, Node: node.Options{MaxPods: c.shown}}, &config)
		if name == "two" {
			if err == nil || !strings.Contains(err.Error(), "Node.MaxPods is 50, but Admission.MaxPods of the engine's configuration is 30") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		pods := a.registrar.Allocatable()[v1.ResourcePods]
		if shown := int(pods.Value()); shown != c.want || config.Admission.MaxPods != c.wantAdmitted {
			t.Errorf("%s: the Node shows %d, admission enforces %d", name, shown, config.Admission.MaxPods)
		}
	}
}

// TestBadOptions: every problem is named.
func TestBadOptions(t *testing.T) {
	c := newConfig(t)
	c.Node.Name = ""
	_, err := New(Options{WhenGone: "Dance", Node: node.Options{Name: "edge-2", Reconnect: func() {}, Logger: funcr.New(func(string, string) {}, funcr.Options{})}}, &c)
	for _, want := range []string{"no Config", "Dance", "Node.Reconnect", "field Node.Name", "field Node.Logger", "no Node.Name"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

// TestHooksOfAnother: no hook of the node is another's, or the Node would be registered by neither, and its pods would not
// come (KS2). Those that New fills in can be wrapped.
func TestHooksOfAnother(t *testing.T) {
	for name, set := range map[string]func(h *nodehooks.Hooks){
		"Register": func(h *nodehooks.Hooks) { h.Register = func(context.Context) error { return nil } },
		"PublishStatus": func(h *nodehooks.Hooks) {
			h.PublishStatus = func(context.Context, nodehooks.Status) error { return nil }
		},
		"RenewLease": func(h *nodehooks.Hooks) { h.RenewLease = func(context.Context, time.Duration) error { return nil } },
		"Changed":    func(h *nodehooks.Hooks) { h.Changed = make(chan struct{}) },
		"":           func(h *nodehooks.Hooks) { h.RuntimeReady = func(context.Context) error { return nil } },
	} {
		c := newConfig(t)
		set(&c.NodeHooks)
		_, err := New(Options{Config: &rest.Config{Host: "https://api.example"}, Local: true}, &c)
		if refused := err != nil; refused != (name != "") || refused && !strings.Contains(err.Error(), "NodeHooks."+name) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "" && (c.NodeHooks.Register == nil || c.NodeHooks.RuntimeReady == nil) {
			t.Errorf("hooks %+v", c.NodeHooks)
		}
	}
}

// TestCredentialPlugins: the engine asks the plugins of the configuration for credentials of registries
// (KG1); half a configuration, one that cannot be read, and one beside another source are refused.
func TestCredentialPlugins(t *testing.T) {
	dir := t.TempDir()
	config, bin := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "bin")
	text := `{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[{"name":"cloud","matchImages":["reg.io"],
		"defaultCacheDuration":"1m","apiVersion":"credentialprovider.kubelet.k8s.io/v1",
		"tokenAttributes":{"serviceAccountTokenAudience":"reg","cacheType":"Token","requireServiceAccount":true}}]}`
	if err := errors.Join(os.Mkdir(bin, 0o700), os.WriteFile(filepath.Join(bin, "cloud"), nil, 0o700), os.WriteFile(config, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	compose := func(plugins CredentialPlugins, c podwright.Config) (pods.ImageCredentials, error) {
		_, err := New(Options{Config: &rest.Config{Host: "https://api.example"}, Local: true, Credentials: plugins}, &c)
		return c.Pods.ImagePull.Credentials, err
	}
	source, err := compose(CredentialPlugins{Config: config, BinDir: bin}, newConfig(t))
	if err != nil || source == nil {
		t.Fatalf("%v, %v", source, err)
	}
	taken := newConfig(t)
	taken.Pods.ImagePull.Credentials = source
	for name, c := range map[string]struct {
		plugins CredentialPlugins
		config  podwright.Config
		want    string
	}{
		"no folder":      {CredentialPlugins{Config: config}, newConfig(t), "belong together"},
		"no file":        {CredentialPlugins{Config: dir + "/none", BinDir: bin}, newConfig(t), dir + "/none"},
		"no plugin":      {CredentialPlugins{Config: config, BinDir: dir}, newConfig(t), dir + "/cloud"},
		"another source": {CredentialPlugins{Config: config, BinDir: bin}, taken, "already"},
	} {
		if _, err := compose(c.plugins, c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if source, err := compose(CredentialPlugins{}, newConfig(t)); source != nil || err != nil {
		t.Errorf("no plugins: %v, %v", source, err)
	}
}

// engine is one that runs until it is told to stop.
type engine struct {
	server.Engine
	drained bool
	ran     chan struct{}
	known   chan struct{} // gets a value when the Node is known
}

func (e *engine) Run(ctx context.Context) error {
	close(e.ran)
	<-ctx.Done()
	return nil
}
func (e *engine) Drain(context.Context) error    { e.drained = true; return nil }
func (e *engine) Pods() []v1.Pod                 { return nil }
func (e *engine) ObjectChanged(podwright.Object) {}
func (e *engine) Refresh(...types.UID)           {}
func (e *engine) NodeKnown()                     { e.known <- struct{}{} }
func (e *engine) LocalStorage(types.UID) (pods.LocalStorage, map[string]pods.MountedVolume) {
	return pods.LocalStorage{}, nil
}

// runAgent runs an agent until the returned function is called; its engine is running.
func runAgent(t *testing.T, a *Agent) (e *engine, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	e = &engine{ran: make(chan struct{}), known: make(chan struct{}, 2)}
	ended := make(chan error)
	go func() { ended <- a.Run(ctx, e) }()
	<-e.ran
	return e, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestRunLeavesNothing (KW2): with an API server that cannot be reached, Run ends with its
// context and leaves no goroutine.
func TestRunLeavesNothing(t *testing.T) {
	c := newConfig(t)
	a, err := New(Options{Config: &rest.Config{Host: "https://127.0.0.1:1"}}, &c)
	if err != nil {
		t.Fatal(err)
	}
	_, stop := runAgent(t, a)
	stop()
}

// TestEngineIsToldOfTheNode (MC6): once the Node exists, so that mirror pods need not wait for their next look.
func TestEngineIsToldOfTheNode(t *testing.T) {
	c := newConfig(t)
	a, err := New(Options{Config: &rest.Config{Host: "http://api", Transport: memoryapi.New(nil).Transport("edge-1")}}, &c)
	if err != nil {
		t.Fatal(err)
	}
	e, stop := runAgent(t, a)
	if err := c.NodeHooks.Register(t.Context()); err != nil { // an engine does this
		t.Error(err)
	}
	<-e.known
	if node := c.Mirrors.Node(); node == nil || node.UID == "" {
		t.Errorf("told of the Node %v", node)
	}
	stop()
	if len(e.known) != 0 {
		t.Errorf("told %d times more", len(e.known))
	}
}

// TestRunWithCertificates (KC1, KW2): with an API server that cannot be reached, and a node that has no certificate,
// the engine runs, and Run leaves no goroutine.
func TestRunWithCertificates(t *testing.T) {
	c := newConfig(t)
	o := Options{Config: &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "x"}, Certificates: Certificates{Dir: filepath.Join(t.TempDir(), "pki"), Rotate: true, Serving: true}}
	o.Node.Addresses = func() []v1.NodeAddress { return []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}} }
	a, err := New(o, &c)
	if err != nil {
		t.Fatal(err)
	}
	_, stop := runAgent(t, a)
	if _, err := a.clients.all.CoreV1().Nodes().Get(t.Context(), "edge-1", metav1.GetOptions{}); !errors.Is(err, certs.ErrNone) {
		t.Errorf("a request without a certificate: %v", err)
	}
	if _, err := a.options.Server.Certificate(nil); !errors.Is(err, certs.ErrNone) {
		t.Errorf("a handshake without a certificate: %v", err)
	}
	stop()
}

// TestBootstrapCredentials (KC1, KC3): those of the configuration without its certificate, or those that the agent
// is told, each time; a client is made again only for others.
func TestBootstrapCredentials(t *testing.T) {
	a := &Agent{options: Options{Config: &rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CertData: []byte("c"), KeyData: []byte("k")}}}}
	if _, err := a.bootstrapConfig(); err == nil || !strings.Contains(err.Error(), "no bootstrap credentials") {
		t.Errorf("a certificate alone: %v", err)
	}
	a.options.Config.BearerToken = "one"
	config, err := a.bootstrapConfig()
	if err != nil || config.BearerToken != "one" || len(config.CertData)+len(config.KeyData) != 0 {
		t.Fatalf("%v, %v", config, err)
	}
	token := "two"
	a.options.Certificates.Bootstrap = func() (*rest.Config, error) { return &rest.Config{Host: "https://b", BearerToken: token}, nil }
	_, dialer := dialed(a.options.Config)
	var made []any
	var b bootstrapping
	for _, token = range []string{"two", "two", "three"} {
		config, err := a.bootstrapConfig()
		if err != nil || config.BearerToken != token {
			t.Fatalf("%v, %v", config, err)
		}
		client, err := b.requests(config, dialer)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, client)
	}
	if made[0] != made[1] || made[1] == made[2] {
		t.Error("a client is kept while the credentials are the same, and no longer")
	}
}

// TestBadCertificates: every problem is named, and a certificate that cannot be read is one unless another can be had.
func TestBadCertificates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	api := &rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CertFile: dir + "/none.crt", KeyFile: dir + "/none.key"}}
	bootstrap := func() (*rest.Config, error) { return api, nil }
	serve := Server{Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }}
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"no folder":              {Options{Config: api, Certificates: Certificates{Rotate: true}}, "no Certificates.Dir"},
		"relative folder":        {Options{Config: api, Certificates: Certificates{Dir: "pki", Bootstrap: bootstrap}}, "absolute"},
		"two for the server":     {Options{Config: api, Server: serve, Certificates: Certificates{Dir: dir, Serving: true}}, "both set"},
		"no addresses":           {Options{Config: api, Certificates: Certificates{Dir: dir, Serving: true}}, "Node.Addresses"},
		"no file":                {Options{Config: api, Certificates: Certificates{Dir: dir, Rotate: true}}, dir + "/none.crt"},
		"no file, but bootstrap": {Options{Config: api, Certificates: Certificates{Dir: dir, Rotate: true, Bootstrap: bootstrap}}, ""},
	} {
		config := newConfig(t)
		_, err := New(c.o, &config)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestUnreadableLeaveDrainsNoLaterNode (KN7): an agent that cannot tell whether the last one was leaving joins, and so does every later one.
func TestUnreadableLeaveDrainsNoLaterNode(t *testing.T) {
	a := &Agent{rootDir: t.TempDir(), name: "edge-1", options: Options{WhenGone: Drain}, disk: foreign.New(clock.RealClock{})}
	killed, kill := context.WithCancel(t.Context())
	kill()
	if _, over := a.leave(killed, hesitant{}); over {
		t.Error("the drain was not cut off")
	}
	if !a.stillLeaving(t.Context()) {
		t.Error("an agent that was ended before it had left does not leave")
	}
	if err := errors.Join(os.Remove(a.leavingFile()), os.Mkdir(a.leavingFile(), 0o700)); err != nil {
		t.Fatal(err)
	}
	if a.stillLeaving(t.Context()) {
		t.Error("what cannot be read counts")
	}
	if _, err := os.Lstat(a.leavingFile()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what could not be read stays for a later agent: %v", err)
	}
}

// TestLeave (KN7): with the policies Drain and Exit a Node that is gone ends Run, also that of an agent whose predecessor was
// ended meanwhile. The start after that joins, and so does one with another policy or of another Node.
func TestLeave(t *testing.T) {
	for name, c := range map[string]struct {
		policy Policy
		begun  string // by an earlier agent of that Node
		left   bool
	}{
		"drained before": {Drain, "edge-1", true}, "exited before": {Exit, "edge-1", true},
		"nothing before": {Drain, "", false}, "to rejoin now": {Rejoin, "edge-1", false}, "another Node before": {Drain, "edge-2", false},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "root")
			start := func() (registered bool, e *engine, err error) {
				config := newConfig(t)
				config.RootDir = root
				a, err := New(Options{Config: &rest.Config{Host: "http://api", Transport: memoryapi.New(nil).Transport("edge-1")}, WhenGone: c.policy}, &config)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				e = &engine{ran: make(chan struct{}), known: make(chan struct{}, 2)}
				ended := make(chan error)
				go func() { ended <- a.Run(ctx, e) }()
				<-e.ran
				if err := config.NodeHooks.Register(t.Context()); err != nil { // an engine does this
					t.Error(err)
				}
				select {
				case <-a.Registered():
					cancel()
					return true, e, <-ended
				case err := <-ended:
					return false, e, err
				}
			}
			if c.begun != "" {
				before := &Agent{rootDir: root, name: c.begun, options: Options{WhenGone: Drain}, disk: foreign.New(clock.RealClock{})}
				killed, kill := context.WithCancel(t.Context())
				kill()
				if err, over := before.leave(killed, hesitant{}); !errors.Is(err, ErrNodeGone) || over {
					t.Errorf("left: %t, %v", over, err)
				}
			}
			if registered, e, err := start(); registered == c.left || errors.Is(err, nodehooks.ErrNodeGone) != c.left || e.drained != (c.left && c.policy == Drain) {
				t.Errorf("registered: %t, drained: %t, %v", registered, e.drained, err)
			}
			if registered, _, err := start(); !registered || err != nil {
				t.Errorf("the next start: registered: %t, %v", registered, err)
			}
		})
	}
}

// hesitant is an engine that never ends draining.
type hesitant struct{ Engine }

func (hesitant) Drain(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
