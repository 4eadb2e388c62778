package oomkills

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/cgrouptree"
	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
)

const (
	// period is the time between two looks at the cgroups, while there are any.
	period = 10 * time.Second
	// maxSearches bounds the searches for a container's cgroup: a cgroup that is not a folder of
	// this machine, as in a virtual machine, is never found.
	maxSearches = 3
)

// Options configures [New]. View, Read, Pods, Pod, Stopping, Clock and Events are required; none of the functions may block.
type Options struct {
	// View shows a pod as it was last read.
	View func(uid types.UID) (*runtime.PodStatus, error)
	// Read is closed once the runtime has been read completely for the first time; Pods then names the pods that it had.
	Read <-chan struct{}
	Pods func() []types.UID
	// Pod returns a pod, or nil if it is not known.
	Pod func(uid types.UID) *v1.Pod
	// Stopping reports whether the pod is being stopped.
	Stopping func(uid types.UID) bool
	// Root is where cgroups are mounted. Empty: /sys/fs/cgroup.
	Root string
	// Machine is the file in which the kernel counts the kills of the whole machine. Empty: /proc/vmstat.
	Machine string
	Clock   clock.Clock
	Events  podinfo.EventRecorder
	Meter   metric.Meter
	Logger  logr.Logger
}

// Kills knows what was killed. Create one with [New]; all methods are safe for concurrent use.
type Kills struct {
	options Options
	finder  *cgrouptree.Finder
	// file is where a cgroup shows how many processes the kernel has killed in it.
	file  string
	set   *instrument.Set
	total metric.Int64Observable
	// begun says that a container has started whose cgroup needs to be looked at.
	begun chan struct{}

	mu   sync.Mutex
	pods map[types.UID]*pod
	// complete says that the first complete reading was taken; unread are the pods that it could not show.
	complete bool
	unread   map[types.UID]bool
	// machine is the machine's number of kills at the last look, killedAt when a look last saw it change.
	machine  int64
	killedAt time.Time
}

// pod is what is known of a pod that the runtime has.
type pod struct {
	namespace, name string
	// sums are the kills by container, over all its lives.
	sums  map[string]int64
	lives map[string]*life
	first first
}

// first is what the first reading showed of a pod.
type first struct {
	running map[string]bool // by ID
	newest  map[string]int  // the restart count of the newest container, by name
}

// note takes a container of the first reading.
func (f *first) note(c *runtime.ContainerStatus) {
	if f.newest == nil {
		f.running, f.newest = map[string]bool{}, map[string]int{}
	}
	if c.State == runtime.Running {
		f.running[c.ID.ID] = true
	}
	f.newest[c.Name] = max(f.newest[c.Name], c.RestartCount)
}

// missed reports whether a container that is seen for the first time had ended before the first
// reading, which was not complete.
func (f *first) missed(c *runtime.ContainerStatus) bool {
	newest, some := f.newest[c.Name]
	return some && c.State == runtime.Exited && !f.running[c.ID.ID] && c.RestartCount <= newest
}

// told is one event.
type told struct {
	uid                        types.UID
	namespace, name, container string
	text                       string
}

// New returns an empty table, or an error that says what is wrong with the meter. It starts nothing.
func New(options Options) (*Kills, error) {
	if options.Root == "" {
		options.Root = "/sys/fs/cgroup"
	}
	if options.Machine == "" {
		options.Machine = "/proc/vmstat"
	}
	set := instrument.New(options.Meter)
	trees := cgrouptree.Examine(options.Root)
	k := &Kills{
		options: options, finder: cgrouptree.NewFinder(trees.Of("memory"), options.Clock), file: "memory.oom_control", set: set,
		total: set.ReadCounter("container_oom_events_total", "Kills in containers for want of memory.",
			instrument.By("namespace"), instrument.By("pod"), instrument.By("container")),
		begun: make(chan struct{}, 1), pods: map[types.UID]*pod{}, unread: map[types.UID]bool{},
	}
	if trees.Unified() {
		k.file = "memory.events"
	}
	return k, set.Err()
}

// Run looks at the cgroups of running containers, and serves the metric, until ctx ends.
func (k *Kills) Run(ctx context.Context) error {
	withdraw, err := k.set.Export(func(o metric.Observer) {
		k.look()
		k.observe(o)
	})
	if err != nil {
		k.options.Logger.Error(err, "OOM kills are not shown as a metric")
	} else {
		defer withdraw()
	}
	read := k.options.Read
	for {
		var due <-chan time.Time
		var timer clock.Timer
		if k.watches() {
			timer = k.options.Clock.NewTimer(period)
			due = timer.C()
		}
		begun := k.begun
		if due != nil {
			begun = nil // already running
		}
		select {
		case <-ctx.Done():
		case <-read:
			k.takeFirst()
			read = nil
		case <-begun:
		case <-due:
			k.look()
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// Noticed takes what is new about a pod. It reads only the cache.
func (k *Kills) Noticed(uid types.UID) {
	k.takeFirst()
	view, err := k.options.View(uid)
	if err != nil || view == nil {
		return
	}
	k.mu.Lock()
	events := k.update(uid, view)
	k.mu.Unlock()
	k.tell(events)
}

// takeFirst takes what the first complete reading of the runtime shows, once, as soon as there is one:
// an earlier agent has reported the kills in it. What is seen later is new. Times do not tell, because
// the clock may have been set since.
func (k *Kills) takeFirst() {
	if timing.Ended(k.options.Read) {
		k.tell(k.updateAll())
	}
}

// updateAll takes the pods of the first complete reading; the second time it does nothing.
func (k *Kills) updateAll() (events []told) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.complete {
		return nil
	}
	for _, uid := range k.options.Pods() {
		view, err := k.options.View(uid)
		if err != nil || view == nil {
			k.unread[uid] = true
			continue
		}
		events = append(events, k.update(uid, view)...)
	}
	k.complete = true
	return events
}

// update takes the current state of a pod. The caller holds mu.
func (k *Kills) update(uid types.UID, view *runtime.PodStatus) (events []told) {
	old := !k.complete || k.unread[uid]
	delete(k.unread, uid)
	if len(view.Containers)+len(view.Sandboxes) == 0 {
		delete(k.pods, uid)
		return nil
	}
	p := k.pods[uid]
	if p == nil {
		p = &pod{namespace: view.Namespace, name: view.Name, sums: map[string]int64{}, lives: map[string]*life{}}
		k.pods[uid] = p
	}
	there := make(map[string]bool, len(view.Containers))
	for _, c := range view.Containers {
		there[c.ID.ID] = true
		if _, shown := p.sums[c.Name]; !shown {
			p.sums[c.Name] = 0 // a series begins at 0, so that its first kill is an increase
		}
		if old {
			p.first.note(c)
		}
		events = append(events, k.updateLife(uid, p, c, old)...)
	}
	for id := range p.lives {
		if !there[id] {
			delete(p.lives, id)
		}
	}
	return events
}

// updateLife takes one container of a pod. old: if it was not seen before, it is older than the agent.
func (k *Kills) updateLife(uid types.UID, p *pod, c *runtime.ContainerStatus, old bool) []told {
	l := p.lives[c.ID.ID]
	if l == nil && (c.State == runtime.Running || c.State == runtime.Exited) {
		old = old || p.first.missed(c)
		l = &life{name: c.Name, based: !old, ended: old && c.State == runtime.Exited}
		p.lives[c.ID.ID] = l
		if watched(c.ID.ID, l) && c.State == runtime.Running {
			select {
			case k.begun <- struct{}{}:
			default:
			}
		}
	}
	if l == nil || l.ended || c.State != runtime.Exited {
		return nil
	}
	if l.end(c, k.options.Stopping(uid)) == 0 {
		return nil
	}
	p.sums[l.name]++
	text := "Out of memory: the kernel killed container " + l.name
	if c.ExitCode != killedCode {
		text = killedProcesses(1, l.name)
	}
	return []told{{uid, p.namespace, p.name, l.name, text}}
}

func killedProcesses(n int64, container string) string {
	if n == 1 {
		return "Out of memory: the kernel killed a process of container " + container
	}
	return fmt.Sprintf("Out of memory: the kernel killed %d processes of container %s", n, container)
}

// watched reports whether a life has a cgroup that is known, or may still be found.
func watched(id string, l *life) bool {
	return len(id) >= cgrouptree.MinID && !l.ended && (l.path != "" || l.searches < maxSearches)
}

// watches reports whether there is a cgroup to look at.
func (k *Kills) watches() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		for id, l := range p.lives {
			if watched(id, l) {
				return k.finder.Top != ""
			}
		}
	}
	return false
}

// look reads the cgroups of everything that is running or, if the kernel has killed nothing lately,
// only those that were not read yet. No lock is held meanwhile.
func (k *Kills) look() {
	began := k.options.Clock.Now()
	all := k.killed()
	counts := map[string]int64{}
	for id, path := range k.paths(all) {
		if n, ok := k.kills(path); ok {
			counts[id] = n
		}
	}
	k.tell(k.take(counts, began))
}

// killed reports whether the kernel may have killed something in a cgroup since the last look. The
// machine's count may rise a moment before the cgroup's, so the following looks also read everything.
func (k *Kills) killed() bool {
	n, ok := machine(k.options.Machine)
	now := k.options.Clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !ok || n != k.machine {
		k.machine, k.killedAt = n, now
	}
	since := now.Sub(k.killedAt)
	return since >= 0 && since < 2*period
}

// paths returns the cgroups to read, by ID: those of everything that is running, or only those not
// read yet. It searches for those that are not known yet.
func (k *Kills) paths(all bool) map[string]string {
	paths, unknown, known := map[string]string{}, map[string]bool{}, map[string]bool{}
	k.mu.Lock()
	for _, p := range k.pods {
		for id, l := range p.lives {
			known[id] = true
			switch {
			case !watched(id, l), l.path != "" && l.seen && !all:
			case l.path != "":
				paths[id] = l.path
			default:
				unknown[id] = true
			}
		}
	}
	k.mu.Unlock()
	if len(unknown) == 0 {
		return paths
	}
	found, complete := k.finder.Find(unknown, known)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		for id, l := range p.lives {
			switch path := found[id]; {
			case path != "":
				l.path, paths[id] = path, path
			case unknown[id] && complete:
				l.searches++
			}
		}
	}
	return paths
}

// take processes what was read.
func (k *Kills) take(counts map[string]int64, began time.Time) (events []told) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid, p := range k.pods {
		for id, l := range p.lives {
			n, ok := counts[id]
			if !ok || l.ended {
				continue
			}
			l.seen = true
			if more := l.read(n, began); more > 0 {
				p.sums[l.name] += more
				events = append(events, told{uid, p.namespace, p.name, l.name, killedProcesses(more, l.name)})
			}
		}
	}
	return events
}

// observe reports the sums. Pods that share a name are one series.
func (k *Kills) observe(o metric.Observer) {
	type series struct{ namespace, pod, container string }
	sums := map[series]int64{}
	k.mu.Lock()
	for _, p := range k.pods {
		for container, n := range p.sums {
			sums[series{p.namespace, p.name, container}] += n
		}
	}
	k.mu.Unlock()
	for s, n := range sums {
		o.ObserveInt64(k.total, n, instrument.Labels("namespace", s.namespace, "pod", s.pod, "container", s.container))
	}
}

// tell emits the events.
func (k *Kills) tell(events []told) {
	for _, e := range events {
		ref := &v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: e.namespace, Name: e.name, UID: e.uid, FieldPath: k.fieldPath(e)}
		k.options.Events.Eventf(ref, v1.EventTypeWarning, restartpolicy.OOMKilled, "%s", e.text)
	}
}

func (k *Kills) fieldPath(e told) string {
	list := "containers"
	if pod := k.options.Pod(e.uid); pod != nil {
		for i := range pod.Spec.InitContainers {
			if pod.Spec.InitContainers[i].Name == e.container {
				list = "initContainers"
			}
		}
		for i := range pod.Spec.EphemeralContainers {
			if pod.Spec.EphemeralContainers[i].Name == e.container {
				list = "ephemeralContainers"
			}
		}
	}
	return "spec." + list + "{" + e.container + "}"
}
