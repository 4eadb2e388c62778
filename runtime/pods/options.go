package pods

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/runtime"
)

// EventRecorder takes the events of pods. object is a *v1.ObjectReference, with a field
// path if a container is meant.
type EventRecorder = podinfo.EventRecorder

// Reader reads one pod fresh from the runtime. [runtime.View] is one; an engine
// passes a reader that also publishes what it read.
type Reader interface {
	Read(ctx context.Context, uid types.UID) (*runtime.PodStatus, error)
}

// ProbeResult is what a probe last said, in the values of package probe.
type ProbeResult = proberesult.Result

// ProbeSource knows the latest probe results of a container. It is called from
// many goroutines and must not block.
type ProbeSource interface {
	ProbeResults(id runtime.ContainerID) (startup, liveness ProbeResult)
}

// Options configures a [Manager].
type Options struct {
	// RootDir holds the pods' directories, in RootDir/pods. Required, absolute.
	RootDir string
	// LogDir holds one log directory per pod. Empty: /var/log/pods.
	LogDir string
	// LinkDir gets one link per started container, <pod>_<namespace>_<container>-<id>.log,
	// to its log (spec/runtime.md 18.2). Absolute. Empty: no links.
	LinkDir string
	// OwnerID marks the sandboxes and containers this manager makes and limits
	// it to those. Empty: no mark, every object with the three pod labels is
	// ours (spec/runtime.md 1.9).
	OwnerID string
	// NodeName is the node's name, for the hosts file and downward values.
	NodeName string
	// HostIPs gives the node's addresses, primary first. Nil: none known.
	// Called for every container start; must not block.
	HostIPs func() []string
	// ClusterDomain is the domain of pods with a subdomain. Empty: cluster.local.
	ClusterDomain string
	// ClusterDNS are the addresses of the cluster's name servers, for pods with
	// DNS policy ClusterFirst. Empty: those pods get the node's settings.
	ClusterDNS []string
	// ResolvConf is the node's resolver file for DNS policy Default.
	// Empty: /etc/resolv.conf.
	ResolvConf string
	// NoResolvConf leaves the node's resolver file out: policy Default is then
	// the loopback address (spec/runtime.md 4).
	NoResolvConf bool
	// HostsFile is the node's hosts file, for pods on the host network.
	// Empty: /etc/hosts.
	HostsFile string
	// SeccompDefault gives containers without a seccomp profile RuntimeDefault
	// instead of Unconfined (spec/runtime.md 14.5).
	SeccompDefault bool
	// NoCPUQuota drops CPU quotas (spec/runtime.md 13).
	NoCPUQuota bool
	// CPUQuotaPeriod is the period of CPU quotas, 1 ms to 1 s. 0 means 100 ms.
	CPUQuotaPeriod time.Duration
	// CgroupDriver and CgroupRoot name the cgroups in which the runtime makes pods,
	// for nodes where Cgroups is nil (spec/runtime.md 3.3). The driver is cgroupfs,
	// systemd, or empty: the runtime chooses. Empty root: "/".
	CgroupDriver string
	CgroupRoot   string
	// LimitedSwap gives the containers of Burstable pods a share of the node's swap
	// in proportion to their memory request, on cgroup v2 (spec/runtime.md 13.5).
	// False: containers do not swap.
	LimitedSwap bool
	// MemoryQoS throttles and protects memory (spec/runtime.md 13.6). Zero: nothing
	// is throttled.
	MemoryQoS MemoryQoS
	// DefaultSysctls are set in every pod that owns the namespace they belong to
	// and does not set them itself (spec/runtime.md 3.6).
	DefaultSysctls map[string]string
	// RuntimeClasses knows the runtime classes. Nil: only the runtime's default
	// handler can be used, a pod that names a class waits.
	RuntimeClasses RuntimeClassGetter
	// UserNamespaces is the pool of IDs for pods with hostUsers: false.
	UserNamespaces UserNamespaces
	// Machine describes the machine the containers run on. Nil: this one, examined
	// by [New].
	Machine *Machine
	// NoManagedMounts leaves out the mounts no manifest asks for: the hosts file
	// and the termination message file. For runtimes whose containers share the
	// node's file system. Containers of an image whose ID is "host", as package
	// runtime/process has it, get none in any case.
	NoManagedMounts bool
	// Allocatable is what containers without a limit read as theirs in
	// resourceFieldRef. Missing CPU and memory are the machine's; anything else
	// that is missing is unknown.
	Allocatable v1.ResourceList
	// MemoryCapacity is the node's memory in bytes, for OOM scores. 0: read
	// from the machine.
	MemoryCapacity int64

	// PostStartTimeout bounds postStart hooks of the kinds exec and httpGet: one
	// that takes longer has failed. 0: 10 min. Negative: no bound, as the kubelet
	// has none. PreStop hooks are bounded by the grace period.
	PostStartTimeout time.Duration

	// NoSidecarRestart leaves a sidecar alone that exits while its pod ends.
	// Otherwise it is started again, without hooks, as long as an app container
	// still runs (spec/runtime.md 16.9).
	NoSidecarRestart bool

	// CrashLoopBackOff delays container restarts. Default 10 s, 2, 300 s
	// (spec/runtime.md 17).
	// Reduced delays, as the kubelet's alpha gate has them, are {Initial: 1 s, Max: 60 s}.
	CrashLoopBackOff BackOffPolicy
	// CrashLoopByExit has other delays for some ways to end. Zero: all are alike.
	CrashLoopByExit CrashLoopByExit
	// ImageBackOff delays pulls after a failed pull. Default 10 s, 2, 300 s
	// (spec/runtime.md 9.3).
	ImageBackOff BackOffPolicy
	// MaxParallelImagePulls bounds concurrent pulls. 0 or 1: one at a time.
	// Negative: unbounded (spec/runtime.md 9.4).
	MaxParallelImagePulls int
	// ImagePull says the rest about pulls.
	ImagePull ImagePullOptions

	// Objects gives config maps and secrets. Nil: there are none.
	Objects ObjectGetter
	// Services gives the services whose addresses containers find in their
	// environment. Nil: containers are told of none (spec/runtime.md 11.8).
	Services ServiceLister
	// Volumes makes the volumes that the engine does not make itself. Nil: pods
	// that need one wait, with a reason that says so.
	Volumes VolumeManager
	// Probes gives probe results. Nil: nobody probes; a startup probe then
	// counts as passed and liveness is never lost.
	Probes ProbeSource
	// Reader re-reads a pod after a kill (spec/runtime.md 16.8). Nil: the
	// manager asks the runtime for what still runs, with two list calls.
	Reader Reader
	// Sequence stamps the manager's own readings. Nil: its own; pass the engine's.
	Sequence *runtime.Sequence
	// BeforeRemove is called before a container's record is removed, so that
	// its exit state can be made durable first; an error keeps the container.
	// Nil: nothing needs to be kept.
	BeforeRemove func(ctx context.Context, uid types.UID, name string, id runtime.ContainerID) error
	// SandboxReady is called in SyncPod once a new sandbox is up, before any
	// image is pulled, with the pod's addresses (none on the host network).
	// Nil: nobody wants to know.
	SandboxReady func(ctx context.Context, uid types.UID, ips []string)

	// Cgroups keeps a cgroup per pod. Nil: pods have none of their own. It names the
	// sandboxes' parents itself, so CgroupDriver stays empty.
	Cgroups Cgroups
	// Allocations remembers what containers were given, and with it running
	// containers are resized (spec/runtime.md 21); pods given to the manager must
	// then be as allocated. Nil: new resources take effect when a container is next
	// started.
	Allocations *Allocations
	// Updater changes the resources of running containers, Stats measures them
	// first. Nil: the runtime, if it can.
	Updater runtime.ResourceUpdater
	Stats   runtime.StatsReader

	// Clock is the time source. Nil: the real clock.
	Clock clock.Clock
	// Rand gives random numbers for file names. Nil: the manager seeds its own.
	// It is used under a lock and need not be safe for concurrent use.
	Rand *rand.Rand
	// Logger receives what no event or error tells. Zero: silent.
	Logger logr.Logger
	// Events receives the pods' events. Nil: dropped.
	Events EventRecorder
	// EveryEvent also passes on events that repeat an earlier one word for word,
	// for recorders that count themselves, as client-go's does. Otherwise such an
	// event is passed on when it has come 1, 2, 4, 8... times, with that number,
	// until it has stayed away for 10 min.
	EveryEvent bool
	// Meter makes the instruments. Nil: nothing is measured.
	Meter metric.Meter
}

const (
	defaultLogDir    = "/var/log/pods"
	defaultPostStart = 10 * time.Minute
)

// complete fills defaults and reports every problem at once.
func (o *Options) complete() error {
	var problems []error
	if o.RootDir == "" {
		problems = append(problems, errors.New("RootDir is required"))
	} else if !filepath.IsAbs(o.RootDir) {
		problems = append(problems, fmt.Errorf("RootDir %q is not absolute", o.RootDir))
	}
	if o.LogDir == "" {
		o.LogDir = defaultLogDir
	}
	if !filepath.IsAbs(o.LogDir) {
		problems = append(problems, fmt.Errorf("LogDir %q is not absolute", o.LogDir))
	}
	if o.LinkDir != "" && !filepath.IsAbs(o.LinkDir) {
		problems = append(problems, fmt.Errorf("LinkDir %q is not absolute", o.LinkDir))
	}
	problems = append(problems,
		o.CrashLoopBackOff.complete("CrashLoopBackOff", standardBackOff()), o.ImageBackOff.complete("ImageBackOff", standardBackOff()), o.ImagePull.complete())
	problems = append(problems, o.CrashLoopByExit.complete(o.CrashLoopBackOff)) // after CrashLoopBackOff is complete
	if o.MemoryCapacity < 0 {
		problems = append(problems, fmt.Errorf("MemoryCapacity %d is negative", o.MemoryCapacity))
	}
	if o.PostStartTimeout == 0 {
		o.PostStartTimeout = defaultPostStart
	}
	problems = append(problems, o.completeNode())
	if o.Cgroups != nil && o.CgroupDriver != "" {
		problems = append(problems, errors.New("CgroupDriver must be empty: Cgroups names the cgroups of pods"))
	}
	if o.ClusterDomain == "" {
		o.ClusterDomain = "cluster.local"
	}
	if o.ResolvConf == "" {
		o.ResolvConf = "/etc/resolv.conf"
	}
	if o.HostsFile == "" {
		o.HostsFile = "/etc/hosts"
	}
	if o.HostIPs == nil {
		o.HostIPs = func() []string { return nil }
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewSource(o.Clock.Now().UnixNano()))
	}
	if o.Events == nil {
		o.Events = podinfo.DiscardEvents{}
	} else if !o.EveryEvent {
		o.Events = newAggregator(o.Events, o.Clock)
	}
	if o.Meter == nil {
		o.Meter = noop.Meter{}
	}
	if o.Sequence == nil {
		o.Sequence = &runtime.Sequence{}
	}
	return errors.Join(problems...)
}
