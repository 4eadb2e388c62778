package kube

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/recovery"
	"github.com/podwright/podwright/kube/certs"
	"github.com/podwright/podwright/kube/credentials"
	"github.com/podwright/podwright/kube/events"
	"github.com/podwright/podwright/kube/node"
	"github.com/podwright/podwright/kube/objects"
	"github.com/podwright/podwright/kube/podsource"
	"github.com/podwright/podwright/kube/server"
	"github.com/podwright/podwright/kube/stats"
	"github.com/podwright/podwright/kube/statussink"
	"github.com/podwright/podwright/kube/tokens"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/nodehooks"
)

// dialTimeout bounds how long connecting takes, and is the period of keep-alive probes.
const dialTimeout = 30 * time.Second

// Engine is what an agent needs of the engine it serves. A *podwright.Engine is one.
type Engine interface {
	server.Engine
	stats.Engine
	Run(ctx context.Context) error
	Drain(ctx context.Context) error
	ObjectChanged(o podwright.Object)
	NodeKnown()
	Refresh(uids ...types.UID)
}

// Agent is everything between an engine and an API server. Make one with [New].
type Agent struct {
	options   Options
	clients   *clients
	registrar *node.Registrar
	source    *podsource.Source
	sink      *statussink.Sink
	// delivered are the pods that the source delivered last.
	delivered atomic.Pointer[[]*v1.Pod]
	objects   *objects.Store
	services  *objects.Services
	classes   *objects.RuntimeClasses
	events    *events.Recorder
	// client and serving get the node's certificates; each is nil if the node does not request that certificate.
	client, serving *certs.Keeper
	keeping         keeping
	engine          atomic.Pointer[Engine]
	settings        settings
	pods            podsGate
	taken           taken
	// leaving says that an earlier agent has not left.
	leaving bool
	// disk has the calls about the record of that.
	disk *foreign.Calls
	// onDiskNow is held by the call that is made now.
	onDiskNow sync.Mutex
	// name, rootDir, runtime, clock and logger come from the engine's configuration.
	name    string
	rootDir string
	runtime cri.Reader
	clock   clock.Clock
	logger  logr.Logger
}

// New makes the parts of an agent and fills in empty fields of the engine's configuration; the
// node's name must be set. It adds the pods of the API server to the sources, and a sink for their
// statuses to the sinks. It makes no call and starts nothing.
func New(o Options, c *podwright.Config) (*Agent, error) {
	problem := errors.Join(o.complete(), checkHooks(c.NodeHooks))
	if c.Node.Name == "" {
		problem = errors.Join(problem, errors.New("the engine's configuration has no Node.Name: that of the Node is required"))
	}
	if problem != nil {
		return nil, fmt.Errorf("kube: %w", problem)
	}
	a := &Agent{options: o, name: c.Node.Name, runtime: c.Runtime, clock: clock.RealClock{}, logger: c.Observe.Logger, pods: newPodsGate()}
	if c.Clock != nil {
		a.clock = c.Clock
	}
	a.completeStats(c)
	if err := errors.Join(a.makeMetrics(c), a.makeClients(c), a.makeServing(c), a.makeKeeping(c)); err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	var err error
	if a.events, err = events.New(events.Options{Client: a.clients.events, Node: c.Node.Name, Logger: c.Observe.Logger.WithName("events")}); err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	if c.Observe.Events == nil {
		c.Observe.Events, c.Pods.EveryEvent = a.events, true // it counts repeats itself (KV4)
	}
	if err := errors.Join(a.makeNode(c), a.makeSource(c), a.makeObjects(c), a.makeCredentials(c), a.makeSinks(c)); err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	a.settings, a.rootDir, a.disk = settingsOf(&a.options, c), c.RootDir, foreign.New(a.clock)
	return a, nil
}

// checkHooks refuses hooks that somebody else has for the Node: its pods are read only once this package has
// registered it.
func checkHooks(h nodehooks.Hooks) error {
	var set []string
	for name, is := range map[string]bool{
		"Register": h.Register != nil, "PublishStatus": h.PublishStatus != nil, "RenewLease": h.RenewLease != nil, "Changed": h.Changed != nil,
	} {
		if is {
			set = append(set, "NodeHooks."+name)
		}
	}
	if len(set) == 0 {
		return nil
	}
	slices.Sort(set)
	return fmt.Errorf("the engine's configuration has %s: these hooks are set by this package, so wrap them once New has returned", strings.Join(set, ", "))
}

// makeNode makes the part that registers the Node.
func (a *Agent) makeNode(c *podwright.Config) (err error) {
	n := a.options.Node
	n.Name, n.Client, n.Leases = c.Node.Name, a.clients.all, a.clients.leases.CoordinationV1()
	n.Reconnect, n.Skew = a.clients.connections.CloseAll, a.clients.skew
	n.Clock, n.Logger, n.Events = c.Clock, c.Observe.Logger.WithName("node"), c.Observe.Events
	n.Leave = a.options.WhenGone != Rejoin
	n.Meter = meter(c, "node")
	if n.RootDir == "" {
		n.RootDir = c.RootDir
	}
	if err := onePodLimit(&n, c); err != nil {
		return err
	}
	if n.Eviction == nil {
		n.Eviction = evictionLimits(c)
	}
	if n.Runtime == nil {
		n.Runtime = c.Runtime
	}
	if n.Images == nil {
		n.Images = c.Images
	}
	if a.registrar, err = node.New(n); err != nil {
		return err
	}
	hooks := a.registrar.Hooks()
	register := hooks.Register
	hooks.Register = func(ctx context.Context) error {
		if a.leaving { // only now, as a drain needs an engine that runs
			a.registrar.Leave()
		}
		err := register(ctx)
		a.taken.note(err)
		return err
	}
	hooks.Initialise, hooks.RuntimeReady, hooks.Rand = c.NodeHooks.Initialise, c.NodeHooks.RuntimeReady, c.NodeHooks.Rand
	c.NodeHooks = hooks
	if c.Node.Object == nil {
		c.Node.Object = func() *v1.Node { return a.keeping.node(a.registrar.Object()) }
	}
	if c.Node.Allocatable == nil && c.Node.AllocatableNow == nil {
		c.Node.AllocatableNow = a.allocatable
	}
	if c.Node.Addresses == nil && len(c.Node.IPs) == 0 && n.Addresses != nil {
		c.Node.Addresses = func() []string { return a.keeping.addresses(internalIPs(n.Addresses())) }
	}
	return nil
}

// onePodLimit makes the number of pods that the Node shows, on which the scheduler counts, the one that admission
// enforces, wherever it is set.
func onePodLimit(n *node.Options, c *podwright.Config) error {
	switch admitted := c.Admission.MaxPods; {
	case n.MaxPods == 0:
		n.MaxPods = admitted
	case admitted == 0:
		c.Admission.MaxPods = n.MaxPods
	case admitted > 0 && admitted != n.MaxPods:
		return fmt.Errorf("Node.MaxPods is %d, but Admission.MaxPods of the engine's configuration is %d: one limit is enough, and the scheduler has to know the one that is enforced", n.MaxPods, admitted)
	}
	return nil
}

// allocatable is what the engine lets pods use: the same as the Node shows, so that the scheduler
// and admission agree. The number of pods is a separate limit.
func (a *Agent) allocatable() v1.ResourceList {
	list := a.registrar.Allocatable().DeepCopy()
	delete(list, v1.ResourcePods)
	return list
}

// evictionLimits returns the engine's limits.
func evictionLimits(c *podwright.Config) []eviction.Threshold {
	switch {
	case c.Eviction == nil:
		return nil
	case c.Eviction.Policy.Thresholds == nil:
		return eviction.DefaultThresholds()
	}
	return c.Eviction.Policy.Thresholds
}

// meter returns the meter of a package of this module, nil if the engine has no metrics.
func meter(c *podwright.Config, name string) metric.Meter {
	if c.Observe.MeterProvider == nil {
		return nil
	}
	return c.Observe.MeterProvider.Meter("github.com/podwright/podwright/kube/" + name)
}

// internalIPs returns the addresses by which pods know their node.
func internalIPs(of []v1.NodeAddress) (ips []string) {
	for _, a := range of {
		if a.Type == v1.NodeInternalIP {
			ips = append(ips, a.Address)
		}
	}
	return ips
}

// makeSource makes the source of the API server's pods.
func (a *Agent) makeSource(c *podwright.Config) (err error) {
	a.source, err = podsource.New(podsource.Options{
		NodeName: c.Node.Name, Client: a.clients.all, Start: a.pods.open,
		RevisionFile: filepath.Join(c.RootDir, "state", "api-revision"),
		Clock:        c.Clock, Logger: c.Observe.Logger.WithName("podsource"), Events: c.Observe.Events,
	})
	return err
}

// makeObjects makes the store of the objects that pods refer to. It follows the pods that the
// source delivers, before the engine has them.
func (a *Agent) makeObjects(c *podwright.Config) error {
	logger := c.Observe.Logger.WithName("objects")
	lists := objects.ListOptions{Client: a.clients.all, Changed: a.objectChanged, Cache: a.keeping.cache, Clock: c.Clock, Logger: logger}
	issued := tokens.Options{Client: a.clients.all, Cache: a.keeping.cache, Clock: c.Clock, Logger: c.Observe.Logger.WithName("tokens")}
	var problems [6]error
	a.objects, problems[0] = objects.New(objects.Options{
		Client: a.clients.objects, Pods: a.following, Cache: a.keeping.cache, Clock: c.Clock, Logger: logger,
	})
	a.services, problems[1] = objects.NewServices(lists)
	a.classes, problems[2] = objects.NewRuntimeClasses(lists)
	var token *tokens.Source
	token, problems[3] = tokens.New(issued)
	var bundles *tokens.Bundles
	bundles, problems[4] = tokens.NewBundles(issued)
	var certificates *tokens.Certificates
	certificates, problems[5] = tokens.NewCertificates(issued)
	if err := errors.Join(problems[:]...); err != nil {
		return err
	}
	a.keeping.renew = []func() []types.UID{token.Renew, certificates.Renew}
	c.Sources = append(slices.Clone(c.Sources), followed{a.source, a.objects, &a.delivered, a.keeping.heard, &a.taken})
	o := &c.Pods
	if o.Objects == nil {
		o.Objects = a.objects
	}
	if o.Services == nil {
		o.Services = a.services
	}
	if o.RuntimeClasses == nil {
		o.RuntimeClasses = a.classes
	}
	if o.Projections.Token == nil {
		o.Projections.Token = token
	}
	if o.Projections.TrustBundle == nil {
		o.Projections.TrustBundle = bundles
	}
	if o.Projections.PodCertificate == nil {
		o.Projections.PodCertificate = certificates
	}
	return nil
}

// makeCredentials makes the source that asks plugins for registry credentials.
func (a *Agent) makeCredentials(c *podwright.Config) error {
	plugins := a.options.Credentials
	if plugins.Config == "" {
		return nil
	}
	if c.Pods.ImagePull.Credentials != nil {
		return errors.New("credentials: the engine's configuration has Pods.ImagePull.Credentials already")
	}
	accounts, err := tokens.NewAccounts(tokens.Options{
		Client: a.clients.all, Cache: a.keeping.cache, Clock: c.Clock, Logger: c.Observe.Logger.WithName("credentials"),
	})
	if err != nil {
		return err
	}
	source, err := credentials.New(credentials.Options{
		Config: plugins.Config, BinDir: plugins.BinDir, Tokens: c.Pods.Projections.Token, Accounts: accounts, Clock: c.Clock,
		Meter: meter(c, "credentials"),
	})
	if err != nil {
		return err
	}
	c.Pods.ImagePull.Credentials = source
	return nil
}

// makeSinks makes the sinks that report pods to the API server.
func (a *Agent) makeSinks(c *podwright.Config) error {
	sinkOptions := statussink.Options{Client: a.clients.all, Lookup: a.source.Lookup}
	if c.Clock != nil {
		sinkOptions.Clock = c.Clock
	}
	sink, err := statussink.New(sinkOptions)
	if err != nil {
		return err
	}
	a.sink, c.Observe.Sinks = sink, append(slices.Clone(c.Observe.Sinks), ownSink{sink, &a.taken})
	if a.options.Local || c.Mirrors.Client != nil {
		return nil
	}
	mirrors, err := statussink.NewMirrors(a.clients.all)
	if err == nil {
		c.Mirrors.Client, c.Mirrors.Node = mirrors, a.registrar.Object
	}
	return err
}

// followed starts following the objects of pods that have not ended before it delivers the pods to the engine.
type followed struct {
	*podsource.Source
	objects   *objects.Store
	delivered *atomic.Pointer[[]*v1.Pod]
	// heard is called each time the engine has received the set of pods.
	heard func()
	*taken
}

var (
	_ syncloop.Source         = followed{}
	_ syncloop.Preceded       = followed{}
	_ syncloop.HealthReporter = followed{}
	_ recovery.Withholder     = followed{}
)

// Run implements [syncloop.Source].
func (f followed) Run(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) error {
	return f.Source.Run(ctx, func(ctx context.Context, pods []*v1.Pod) error {
		for _, pod := range pods {
			if !podinfo.Terminal(pod.Status.Phase) {
				f.objects.Follow(pod)
			}
		}
		err := deliver(ctx, pods)
		if err == nil {
			f.delivered.Store(&pods)
			f.heard()
		}
		return err
	})
}

// objectChanged passes the change on to the engine, once there is one.
func (a *Agent) objectChanged(o objects.Object) {
	if o.Kind == "Service" {
		a.pods.noteServices()
	}
	if engine := a.engine.Load(); engine != nil {
		(*engine).ObjectChanged(o)
	}
}

// following returns the UIDs of the pods whose objects are followed: all that the engine has, until they have ended.
func (a *Agent) following() (uids []types.UID) {
	engine := a.engine.Load()
	if engine == nil {
		return nil
	}
	for _, pod := range (*engine).Pods() {
		if !podinfo.Terminal(pod.Status.Phase) {
			uids = append(uids, pod.UID)
		}
	}
	return uids
}

// Registered is closed once the Node is registered.
func (a *Agent) Registered() <-chan struct{} { return a.registrar.Registered() }

// Run runs the engine, and everything that it needs from the API server, until ctx ends or the Node
// is gone for good, also if an earlier agent was ended before it had left (KN7). It returns once all
// of that has ended: the engine ends first, so its last statuses and events still go out. The error
// is the engine's, or wraps [ErrNodeGone]. Call it once.
func (a *Agent) Run(ctx context.Context, engine Engine) error {
	serve, err := a.makeServer(engine)
	if err != nil {
		return err
	}
	a.engine.Store(&engine)
	a.leaving = a.stillLeaving(ctx)
	beside, stopBeside := context.WithCancel(context.WithoutCancel(ctx))
	running, stop := context.WithCancel(ctx)
	var parts, watch sync.WaitGroup
	parallel := []func(context.Context) error{a.registrar.Run, a.services.Run, a.classes.Run, a.events.Run, a.letPodsCome, a.endLeftOut, serve}
	if a.keeping.cache != nil {
		parallel = append(parallel, a.runKeeping)
	}
	for _, run := range append(parallel, a.keepers()...) {
		parts.Go(func() {
			if err := run(beside); err != nil && beside.Err() == nil {
				a.logger.Error(err, "A part of the node has ended")
			}
		})
	}
	var left error // as over, read after watch.Wait
	var over bool
	watch.Go(func() {
		select {
		case <-a.registrar.Gone():
			left, over = a.leave(ctx, engine)
			stop()
		case <-running.Done():
		}
	})
	err = engine.Run(running) // also ends after a drain
	stop()
	watch.Wait()
	stopBeside()
	parts.Wait()
	a.clients.connections.CloseAll()
	if over {
		a.haveLeft(ctx)
	}
	a.leaveDisk()
	return errors.Join(err, left)
}

// keepers returns the functions that keep the node's certificates.
func (a *Agent) keepers() (run []func(context.Context) error) {
	for _, k := range []*certs.Keeper{a.client, a.serving} {
		if k != nil {
			run = append(run, k.Run)
		}
	}
	return run
}

// makeServer returns the function that runs the node's server.
func (a *Agent) makeServer(engine Engine) (run func(ctx context.Context) error, err error) {
	o := a.options.Server
	if o.Listener == nil {
		return func(context.Context) error { return nil }, nil
	}
	pages, err := a.makeStats(engine)
	if err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	s, err := server.New(server.Options{
		Node: a.name, Engine: engine, Runtime: a.runtime, Certificate: o.Certificate, ClientCAs: o.ClientCAs, Metrics: o.Metrics, Stats: pages,
		Config: func() any { return a.settings }, CheckpointDir: filepath.Join(a.rootDir, "checkpoints"),
		Tokens: a.clients.all.AuthenticationV1(), Access: a.clients.all.AuthorizationV1(),
		Clock: a.clock, Logger: a.logger.WithName("server"),
	})
	if err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	return func(ctx context.Context) error { return s.Serve(ctx, o.Listener) }, nil
}
