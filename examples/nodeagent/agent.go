package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/term"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runonce"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/cgroups"
	"github.com/podwright/podwright/runtime/process"
	"github.com/podwright/podwright/syncloop/source"
)

// stopTimeout bounds how long the agent itself takes to end, not counting pods.
const stopTimeout = 10 * time.Second

// apiStopTimeout bounds how long the local API takes to end.
const apiStopTimeout = 3 * time.Second

// extendTimeout keeps systemd from killing an agent that reports what it waits for (in microseconds).
const extendTimeout = "EXTEND_TIMEOUT_USEC=30000000"

// stopTellPeriod is how often the log says what the stop waits for.
const stopTellPeriod = 5 * time.Second

// agent is the program: an engine, and the parts that show it to users.
type agent struct {
	options    options
	log        *slog.Logger
	screen     *screen // nil unless stdout is a terminal
	engine     *podwright.Engine
	runtime    cri.Reader
	once       *runonce.Runner // nil if the pods run for good
	report     *runonce.Report // of once, when it has finished
	listeners  []net.Listener
	server     *http.Server
	page       *webPage        // nil without --web
	streams    slots           // of answers without an end
	orders     slots           // of orders about a pod
	draining   slots           // of clients that wait for the drain
	over       context.Context // ends those answers
	endStreams context.CancelFunc
	drains     *drains
	started    time.Time
	recorded   eventLog
	metrics    *metrics
	service    service
	asked      bool // a signal has asked the agent to end
	statuses   io.Closer
	close      func(context.Context) error // closes the runtime
}

// containerRuntime is a runtime with its image store.
type containerRuntime interface {
	cri.RuntimeService
	cri.ImageService
}

// newAgent builds everything that can fail, before anything runs.
func newAgent(ctx context.Context, o options, supervisor process.Supervisor, stdout, stderr io.Writer) (_ *agent, err error) {
	a := &agent{options: o, started: time.Now(), drains: newDrains(), service: openService()}
	logs := stderr
	if f, ok := fileOf(stdout); ok && !o.once.once && term.IsTerminal(int(f.Fd())) {
		a.screen = newScreen(f)
		logs = a.screen
		defer func() {
			if err != nil { // the error belongs on the normal screen
				a.screen.close()
			}
		}()
	}
	a.log = newLogger(logs, o)
	logger := logr.FromSlogHandler(a.log.Handler())

	if a.metrics, err = newMetrics(); err != nil {
		return nil, err
	}
	rt, closeRuntime, err := openRuntime(ctx, o, supervisor, a.metrics.meter("runtime/cri"), logger)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errInUse(o.root)
	}
	if err != nil {
		err = fmt.Errorf("--runtime %s: %w", o.runtime, err)
		if errors.Is(err, runtime.ErrInvalid) { // no endpoint at all
			err = exit{codeUsage, err}
		}
		return nil, err
	}
	a.close, a.runtime = closeRuntime, rt
	defer func() {
		if err != nil {
			err = errors.Join(err, closeRuntime(ctx))
		}
	}()
	if o.web.address != "" {
		a.recorded.lives = newTimelines()
	}
	events := recorder{log: a.log, kept: &a.recorded}
	sources, err := o.sources.open(o.nodeName, source.FileOptions{
		Recorder: events, Meter: a.metrics.meter("syncloop/source"),
	}, logger)
	if err != nil {
		return nil, exit{codeUsage, err}
	}
	sinks, statuses, err := openStatuses(o.statuses)
	if err != nil {
		return nil, err
	}
	a.statuses = statuses
	if a.once, err = o.once.runner(o.drain); err != nil {
		return nil, err
	}
	if a.once != nil {
		sinks = append(sinks, a.once)
	}
	config := podwright.Config{
		Runtime: rt, Images: rt, Sources: sources,
		RootDir: o.root,
		Node:    podwright.Node{Name: o.nodeName, IPs: nodeIPs()},
		Storage: podwright.Storage{LogLinkDir: o.logs.links, LogRotation: o.logs.rotation, DeadContainers: o.dead.config()},
		ImageGC: o.images.config(), Eviction: o.eviction.config(o.podCgroup), Outbound: o.outbound.config(),
		Admission: podwright.Admission{MaxPods: o.maxPods},
		Observe:   podwright.Observe{Sinks: sinks, Events: events, Logger: logger, MeterProvider: a.metrics.provider},
	}
	config.Checkpoints.Keys, config.Checkpoints.TrustPlain = o.keys.keys, o.keys.trustPlain
	config.Pods.MaxRuntimeWork = o.runtimeWork
	config.Pods.SeccompDefault = o.seccomp && o.runtime != "process"
	config.Admission.Sources = o.sources.policies()
	if o.objects != "" {
		if config.Pods.Objects, err = source.NewObjectDir(o.objects, source.ObjectDirOptions{Logger: logger.WithName("objects")}); err != nil {
			return nil, fmt.Errorf("--objects: %w", err)
		}
	}
	if o.podCgroup != "" {
		if config.Pods.Cgroups, err = cgroups.New(cgroups.Options{Parent: o.podCgroup}); err != nil {
			return nil, fmt.Errorf("--pod-cgroups: %w", err)
		}
	}
	if a.engine, err = podwright.New(config); err != nil {
		return nil, err
	}
	a.metrics.registry.MustRegister(newPodStates(a.engine.Pods))
	return a, a.openAPI(ctx) // last, in the folder that the engine has checked to be safe
}

// openRuntime connects to the runtime that the command line names, and returns a function that
// closes it.
func openRuntime(
	ctx context.Context, o options, supervisor process.Supervisor, meter metric.Meter, logger logr.Logger,
) (containerRuntime, func(context.Context) error, error) {
	if o.runtime != "process" {
		client, err := cri.Dial(ctx, o.runtime, cri.Options{Meter: meter})
		if err != nil {
			return nil, nil, err
		}
		return client, func(context.Context) error { return client.Close() }, nil
	}
	if os.Geteuid() == 0 && !o.processAsRoot {
		return nil, nil, errors.New("as root, every program of a pod would run as root on this machine, and in no container: run nodeagent as another user, name a CRI socket, or say --process-as-root")
	}
	rt, err := process.New(process.Options{
		Root: filepath.Join(o.root, "runtime"), Supervisor: supervisor, Logger: logger.WithName("process"),
	})
	if err != nil {
		return nil, nil, err
	}
	return rt, rt.Close, nil
}

// run serves until a signal or a failure ends it.
func (a *agent) run(ctx context.Context, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, len(a.listeners)+1)
	var served sync.WaitGroup
	a.serveAll(ctx, &served, failed)
	ended := make(chan struct{})
	var engineErr error
	go func() {
		defer close(ended)
		engineErr = a.runEngine(ctx)
	}()
	a.log.Info("nodeagent started", "node", a.options.nodeName, "sources", a.options.sources.told(),
		"runtime", a.options.runtime, "root", a.options.root, "listen", listenNames(a.listeners))
	drawn := a.draw(ctx)
	served.Go(func() { a.tellService(ctx) })
	served.Go(func() { a.forgetStart(ctx) })

	var err error
	select {
	case s := <-signals:
		a.asked = true
		err = a.stop(s.String(), a.options.drain, signals, cancel, ended)
	case <-a.drains.asked:
		err = a.stop("nodeagent drain", true, signals, cancel, ended)
	case err = <-failed:
	case <-ended:
		if errors.Is(engineErr, podwright.ErrInUse) {
			engineErr = errInUse(a.options.root)
		}
	}
	if errors.Is(err, errSecondSignal) {
		return err // do not wait: the engine may still write engineErr
	}
	cancel()
	return a.unlessSignal(signals, func() error {
		<-ended
		<-drawn
		final, done := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer done()
		a.endStreams()
		shutdownErr := a.endAPI(final)
		served.Wait()
		return errors.Join(err, engineErr, shutdownErr, a.close(final), a.metrics.close(final), a.statuses.Close())
	})
}

// unlessSignal returns what last does, which is part of the end, or errSecondSignal at a second signal. A first one asks
// for what is under way.
func (a *agent) unlessSignal(signals <-chan os.Signal, last func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- last() }()
	for {
		select {
		case err := <-ended:
			return err
		case <-signals:
			if a.asked {
				return a.atOnce()
			}
			a.asked = true
		}
	}
}

// atOnce gives the terminal back and says that a second signal has come. It does not wait for a terminal that is stopped.
func (a *agent) atOnce() error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if a.screen != nil {
			a.screen.close()
		}
	}()
	select {
	case <-closed:
	case <-time.After(100 * time.Millisecond):
	}
	return errSecondSignal
}

// serveAll serves the local API and the page until they are shut down.
func (a *agent) serveAll(ctx context.Context, served *sync.WaitGroup, failed chan<- error) {
	serve := func(server *http.Server, l net.Listener, what string) {
		served.Go(func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("%s at %s: %w", what, l.Addr(), err)
			}
		})
	}
	for _, l := range a.listeners {
		serve(a.server, l, "local API")
	}
	if a.page != nil {
		serve(a.page.server, a.page.listener, "page for browsers")
		served.Go(func() { a.recorded.lives.follow(a.engine.Watch(ctx)) })
		a.log.Info("A page for browsers is served; nodeagent web prints the link that opens it", "web", "http://"+a.page.listener.Addr().String())
	}
}

// endAPI lets clients receive the rest of their answers, for a limited time.
func (a *agent) endAPI(ctx context.Context) error {
	quick, cancel := context.WithTimeout(ctx, apiStopTimeout)
	defer cancel()
	err := endServer(quick, a.server)
	if a.page != nil {
		err = errors.Join(err, endServer(quick, a.page.server))
	}
	for range maxStreams { // by now, no request owns the commands in containers
		select {
		case a.streams.taken <- struct{}{}:
		case <-ctx.Done():
			return errors.Join(err, errors.New("a command in a container does not end"))
		}
	}
	return err
}

func endServer(ctx context.Context, server *http.Server) error {
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) { // a client hangs, which is not the agent's failure
		err = server.Close()
	}
	return err
}

// stop ends the engine, with drain after stopping all pods; a signal meanwhile ends the process.
func (a *agent) stop(why string, drain bool, signals <-chan os.Signal, cancel context.CancelFunc, ended <-chan struct{}) error {
	drained := make(chan error, 1)
	ctx, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	if drain {
		a.log.Info("stopping all pods, then ending; a second signal ends at once", "signal", why)
	} else {
		a.log.Info("ending, pods keep running; a second signal ends at once", "signal", why)
	}
	if drain && a.once == nil {
		go func() { drained <- a.engine.Drain(ctx) }()
	} else { // a run of once drains by itself, and its drain tells its outcome
		drained <- nil
		cancel()
	}
	a.service.tell("STOPPING=1", "STATUS=Ending")
	tell := time.NewTicker(stopTellPeriod)
	defer tell.Stop()
	for {
		select {
		case <-tell.C:
			waits := strings.Join(a.waitingFor(drain), "; ")
			a.log.Info("still waiting", "for", waits)
			a.service.tell("STATUS=Waiting for "+printable(waits), "WATCHDOG=1", extendTimeout)
		case <-ended:
			err := <-drained
			if drain && a.once == nil {
				a.drains.end(err)
			}
			if errors.Is(err, podwright.ErrKept) { // for a reboot nothing is missing
				a.log.Info("drained, and kept what a source or the host may still want", "why", err.Error())
				return nil
			}
			return err
		case <-signals:
			return a.atOnce()
		}
	}
}

// errSecondSignal makes main end without waiting for anything.
var errSecondSignal = errors.New("ended by a second signal")

// errInUse says that two agents must not share a folder.
func errInUse(root string) error {
	return fmt.Errorf("--root %s is in use by another nodeagent; end that one or choose another folder", root)
}

// nodeIPs returns the machine's own global addresses, IPv4 first, at most one of
// each family.
func nodeIPs() []string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var v4, v6 string
	for _, a := range addrs {
		prefix, ok := a.(*net.IPNet)
		if !ok || !prefix.IP.IsGlobalUnicast() {
			continue
		}
		if prefix.IP.To4() != nil {
			if v4 == "" {
				v4 = prefix.IP.String()
			}
		} else if v6 == "" {
			v6 = prefix.IP.String()
		}
	}
	var ips []string
	for _, ip := range []string{v4, v6} {
		if ip != "" {
			ips = append(ips, ip)
		}
	}
	return ips
}
