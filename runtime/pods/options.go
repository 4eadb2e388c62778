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

	"github.com/podwright/podwright/internal/outbound"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/internal/restarts"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// Reader reads one pod fresh from the runtime. [cri.View] is one; an engine
// passes a reader that also publishes what it read.
type Reader interface {
	Read(ctx context.Context, uid types.UID) (*runtime.PodStatus, error)
}

// Outbound says where hooks may connect to. Its fields:
//
//	Allow  []netip.Prefix // addresses that are permitted all the same, such as 127.0.0.0/8; nil: none
//	NoHost bool           // refuse every httpGet and tcpSocket that names a host
//	Dial   func(ctx context.Context, uid types.UID, network, address string) (net.Conn, error)
//	                      // connects instead of the node, and decides over addresses; nil: from the node's network
type Outbound = outbound.Options

// ProbeResult is the latest result of a probe, in the values of package probe.
type ProbeResult = proberesult.Result

// ProbeSource knows the latest probe results of a container. It is called from
// many goroutines and must not block.
type ProbeSource interface {
	ProbeResults(id runtime.ContainerID) (startup, liveness ProbeResult)
}

// AskedRestarts are the runs of a pod's containers that are to be replaced. Its fields:
//
//	At      time.Time      // when a restart was last asked for
//	Message string         // why
//	Runs    []Run          // the runs that are still to be replaced because that was asked for
//	Own     []Run          // those that are to be replaced for a reason of the engine's own
//	Counts  map[string]int // by container, how many restarts were made because they were asked for
type AskedRestarts = restarts.Asked

// Options configures a [Manager]. Only RootDir is required. In an engine,
// podwright.Config holds these options; it sets the fields marked Engine itself.
type Options struct {
	// Folders and addresses of the node.

	// RootDir holds the pods' folders, in RootDir/pods. Required, absolute. Engine.
	RootDir string
	// LogDir holds one log folder per pod. Empty: /var/log/pods. Engine.
	LogDir string
	// LinkDir gets a link to the log of each started container, named
	// <pod>_<namespace>_<container>-<id>.log (spec/runtime.md 18.2). Absolute.
	// Empty: no links. Engine.
	LinkDir string
	// NodeName is the node's name, for hosts files and downward values. Engine.
	NodeName string
	// HostIPs returns the node's addresses, primary first. It is called for every
	// container start and must not block. Nil: none are known. Engine.
	HostIPs func() []string
	// ClusterDomain is the domain of pods with a subdomain. Empty: cluster.local.
	// Engine.
	ClusterDomain string
	// ClusterDNS are the addresses of the cluster's name servers, for pods with DNS
	// policy ClusterFirst. Empty: those pods get the node's settings. Engine.
	ClusterDNS []string
	// ResolvConf is the node's resolver file, for DNS policy Default. Empty:
	// /etc/resolv.conf; but if that names only the node's own systemd-resolved, at
	// 127.0.0.53, where no pod reaches it, /run/systemd/resolve/resolv.conf
	// (spec/runtime.md 4.4).
	ResolvConf string
	// NoResolvConf leaves out the node's resolver file: DNS policy Default then means
	// the loopback address (spec/runtime.md 4).
	NoResolvConf bool
	// HostsFile is the node's hosts file, for pods on the host network.
	// Empty: /etc/hosts.
	HostsFile string

	// CPU, memory and kernel settings of containers.

	// Allocatable returns what resourceFieldRef shows as the limits of containers that have
	// none. Missing CPU and memory are the machine's; other missing resources are unknown.
	// Called from many goroutines, often; it must not block. Nil: nothing but the machine's is
	// known. Engine.
	Allocatable func() v1.ResourceList
	// MemoryCapacity is the node's memory in bytes, for OOM scores. 0: that of
	// Machine.
	MemoryCapacity int64
	// Machine describes the machine the containers run on. Nil: [New] examines this
	// one.
	Machine *Machine
	// NoCPUQuota drops CPU quotas (spec/runtime.md 13).
	NoCPUQuota bool
	// CPUQuotaPeriod is the period of CPU quotas, 1 ms to 1 s. 0 means 100 ms.
	CPUQuotaPeriod time.Duration
	// LimitedSwap gives the containers of Burstable pods a share of the node's swap
	// in proportion to their memory request, on cgroup v2 (spec/runtime.md 13.5).
	// False: containers do not swap.
	LimitedSwap bool
	// MemoryQoS throttles and protects memory (spec/runtime.md 13.6). Zero: nothing
	// is throttled.
	MemoryQoS MemoryQoS
	// Cgroups keeps a cgroup per pod and names the parent of its sandbox. Nil: pods
	// have no cgroup of their own.
	Cgroups Cgroups
	// CgroupDriver and CgroupRoot name the cgroups in which the runtime makes pods,
	// for nodes where Cgroups is nil (spec/runtime.md 3.3). The driver is cgroupfs,
	// systemd, or empty: the runtime chooses. Empty root: "/".
	CgroupDriver string
	CgroupRoot   string
	// Updater changes the resources of running containers, Stats measures them
	// first. Nil: the runtime, or one that it wraps (a method Unwrap returns that), if it
	// can. Without an Updater, set AllocationOptions.NoUpdate.
	Updater cri.ResourceUpdater
	Stats   cri.StatsReader
	// DefaultSysctls are set in every pod that owns the namespace they belong to
	// and does not set them itself (spec/runtime.md 3.6).
	DefaultSysctls map[string]string
	// SeccompDefault gives containers without a seccomp profile RuntimeDefault
	// instead of Unconfined (spec/runtime.md 14.5).
	SeccompDefault bool
	// UserNamespaces is the pool of IDs for pods with hostUsers: false.
	UserNamespaces UserNamespaces
	// RuntimeClasses knows the runtime classes. Nil: pods use the runtime's default
	// handler, and a pod that names a class waits.
	RuntimeClasses RuntimeClassGetter
	// NoManagedMounts leaves out the mounts that no manifest asks for: the hosts file
	// and the termination message file. It is for runtimes whose containers share the
	// node's file system. Containers of an image with the ID "host", as package
	// runtime/process has it, never get them.
	NoManagedMounts bool

	// Images, objects and volumes.

	// ImagePull configures pulls.
	ImagePull ImagePullOptions
	// MaxParallelImagePulls bounds concurrent pulls. A pull that takes more than 10 s
	// does not count while others wait. 0: unbounded (spec/runtime.md 9.4).
	MaxParallelImagePulls int
	// ImageBackOff delays pulls after a failed pull. Default 10 s, doubling up to
	// 300 s (spec/runtime.md 9.3).
	ImageBackOff BackOffPolicy
	// Objects returns config maps and secrets. Nil: there are none.
	Objects ObjectGetter
	// Projections makes tokens, trust bundles and certificates for projected volumes
	// (spec/runtime.md 25). Zero: pods that need one wait, with a reason that says so.
	Projections Projections
	// Grants gives containers CPUs and devices of the node (spec/runtime.md 26). Nil: they
	// get what their manifests say.
	Grants Grants
	// Services returns the services whose addresses containers find in their
	// environment. Nil: there are none (spec/runtime.md 11.8).
	Services ServiceLister
	// ObjectRetry is the longest pause, before jitter, until a pod that waits for an
	// object, a volume, a runtime class or the services looks again. Default 10 s.
	ObjectRetry time.Duration
	// Volumes makes the volumes that the engine does not make itself. Nil: pods
	// that need one wait, with a reason that says so.
	Volumes VolumeManager

	// Starts, restarts and stops.

	// MaxRuntimeWork bounds how many calls that make and start sandboxes and containers
	// are under way at a time; a call that the runtime does not answer soon stops
	// counting (spec/runtime.md 24). Pulls, stops and reads are never bounded. 0: twice
	// the CPUs (GOMAXPROCS), at least 4. Negative: unbounded.
	MaxRuntimeWork int
	// CrashLoopBackOff delays container restarts. Default 10 s, doubling up to 300 s
	// (spec/runtime.md 17). The kubelet's alpha gate for shorter delays corresponds
	// to {Initial: 1 s, Max: 60 s}.
	CrashLoopBackOff BackOffPolicy
	// CrashLoopByExit sets other delays for some ways to end. Zero: all have the same.
	CrashLoopByExit CrashLoopByExit
	// PostStartTimeout bounds postStart hooks of the kinds exec and httpGet: a hook
	// that takes longer has failed. 0: 10 min. Negative: no bound, as in the kubelet.
	// The grace period bounds preStop hooks.
	PostStartTimeout time.Duration
	// Outbound says where httpGet hooks may connect to (spec/runtime.md 15.4). Zero: from
	// the node's network, but not to link-local addresses, clouds' metadata services and,
	// for pods of a network of their own, the node's loopback. Engine.
	Outbound Outbound
	// KeepSidecars starts a sidecar that exits while its pod ends again, without hooks,
	// as long as an app container runs (spec/runtime.md 16.9, alpha in Kubernetes). False:
	// it stays ended. Either way sidecars are stopped after the app containers, in
	// reverse order.
	KeepSidecars bool
	// SandboxReady is called in SyncPod once a new sandbox is up, before any image
	// is pulled, with the pod's addresses (none on the host network). A sandbox without the
	// address that it needs is not up, and will be replaced. An agent without an Engine
	// calls status.Manager.SetSandboxReady in it. Nil: no call.
	SandboxReady func(ctx context.Context, uid types.UID, ips []string)

	// Events and randomness.

	// EveryEvent also passes on events that repeat an earlier one word for word, for
	// recorders that count repeats themselves, as client-go's does. Otherwise a
	// repeated event is passed on when it has occurred 1, 2, 4, 8... times, with that
	// number. It counts as new after 10 min without it. In an engine, this also holds for
	// the events of probes.
	EveryEvent bool
	// Rand gives random numbers for file names. It is used under a lock and need not
	// be safe for concurrent use. Nil: the manager seeds its own.
	Rand *rand.Rand

	// What an engine sets.

	// OwnerID marks the sandboxes and containers that this manager makes and limits
	// it to those. Empty: no mark, every object with the three pod labels belongs to
	// it (spec/runtime.md 1.9). Engine.
	OwnerID string
	// Allocations decides over resizes of running containers (spec/runtime.md 21).
	// Pods given to the manager must then be as allocated. Nil: new resources take
	// effect when a container is next started. Engine.
	Allocations *Allocations
	// Probes returns probe results. Nil: no probe runs; startup probes then count as
	// passed, and liveness is never lost. Engine.
	Probes ProbeSource
	// Reader reads a pod again after a kill (spec/runtime.md 16.8). Nil: the manager
	// asks the runtime for what still runs, with two list calls. Engine.
	Reader Reader
	// Hidden adds to the pods of a list what runs and the list lacks, as pleg.Generator.AddHidden does. Nil: a list is complete.
	// Engine.
	Hidden func(listed []*runtime.Pod) []*runtime.Pod
	// Gone reports whether the runtime is known to have nothing left of a pod that has ended, which saves
	// a list before its logs and folder are removed. It must not block. Nil: a list is made. Engine.
	Gone func(uid types.UID) bool
	// Sequence stamps the manager's own readings. Nil: one of its own. Engine.
	Sequence *runtime.Sequence
	// NextRun returns the lowest restart count that the next container of this name may
	// have, as far as is remembered; it is called if the runtime has no container of the
	// name. It is called without a lock and must not block. Nil: nothing is remembered. Engine.
	NextRun func(uid types.UID, name string) int
	// Restarts returns the restarts that were asked for in a pod, nil if there are none: the runs
	// that they name are stopped and replaced without a back-off (spec/runtime.md 6.11). It is
	// called without a lock and must not block. Nil: there are none. Engine.
	Restarts func(uid types.UID) *AskedRestarts
	// RecordRestarts stores what Restarts returns of a pod from now on; only Own differs from what it
	// returned before. It is called before containers stop that are started again although an exit
	// could end them for good, and returns once that is stored (spec/runtime.md 6.12). Nil: a
	// container that ends with 0 when it is stopped, and whose next start fails, counts as done.
	// Engine.
	RecordRestarts func(ctx context.Context, uid types.UID, next *AskedRestarts)
	// BeforeRemove is called before a container's record is removed, so that its exit
	// state can be stored first. An error keeps the container. Nil: no call. Engine.
	BeforeRemove func(ctx context.Context, uid types.UID, name string, id runtime.ContainerID) error
	// Clock is the time source. Nil: the real clock. Engine.
	Clock clock.Clock
	// Logger receives what neither events nor errors report. Zero: silent. Engine.
	Logger logr.Logger
	// Events receives the pods' events. Nil: dropped. Engine.
	Events podinfo.EventRecorder
	// Meter makes the instruments. Nil: nothing is measured. Engine.
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
	if o.ObjectRetry == 0 {
		o.ObjectRetry = defaultObjectRetry
	}
	if o.PostStartTimeout == 0 {
		o.PostStartTimeout = defaultPostStart
	}
	problems = append(problems, o.completeNode(), outbound.Validate(o.Outbound))
	if o.Cgroups != nil && o.CgroupDriver != "" {
		problems = append(problems, errors.New("CgroupDriver must be empty: Cgroups names the cgroups of pods"))
	}
	if o.ClusterDomain == "" {
		o.ClusterDomain = "cluster.local"
	}
	if o.HostsFile == "" {
		o.HostsFile = "/etc/hosts"
	}
	if o.HostIPs == nil {
		o.HostIPs = func() []string { return nil }
	}
	if o.Allocatable == nil {
		o.Allocatable = func() v1.ResourceList { return nil }
	}
	if o.Restarts == nil {
		o.Restarts = func(types.UID) *AskedRestarts { return nil }
	}
	if o.RecordRestarts == nil {
		o.RecordRestarts = func(context.Context, types.UID, *AskedRestarts) {}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewSource(o.Clock.Now().UnixNano()))
	}
	if o.Events == nil {
		o.Events = podinfo.DiscardEvents{}
	} else if _, discarded := o.Events.(podinfo.DiscardEvents); !discarded && !o.EveryEvent {
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
