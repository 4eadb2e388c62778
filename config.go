package podwright

import (
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/mirror"
	"github.com/podwright/podwright/syncloop/nodehooks"
)

// EventRecorder takes the events of pods and of the node, in the shape of client-go's
// recorder. object is a *v1.Pod, or a *v1.ObjectReference to one (with a field path for a
// container) or to the node. Eventf is called from many goroutines and must not
// block.
type EventRecorder = podinfo.EventRecorder

// Config configures an [Engine]. Runtime, Images, Sources, and RootDir are
// required; every other field has a useful zero value. [New] copies the Config, but
// shares what it points to, which must not change afterwards. Negative durations are
// refused, unless a field gives them a meaning.
//
// The groups at the end are the options of the engine's parts. The engine sets some of
// their fields itself, such as the clock, the logger and whatever ties the parts
// together; [New] refuses a Config that sets one of these and names the field to use.
type Config struct {
	// Runtime runs the containers. Required. If it is also a
	// [cri.EventStreamer], the engine reacts faster, to its events.
	Runtime cri.RuntimeService
	// Images is the runtime's image store. Required.
	Images cri.ImageService
	// Sources say which pods are desired. At least one is required, because an
	// engine without sources would stop every pod it finds. Names must be unique.
	Sources []syncloop.Source
	// RootDir is the absolute path of the engine's own folder: pods' volumes and
	// hosts files. Required; created with mode 0750 if missing. It belongs to one running
	// engine at a time, and to the user of this process: [New] refuses a folder that other
	// users can change, by itself or through one above it (spec/cleanup.md RD1).
	RootDir string

	// Node describes this node.
	Node Node
	// Storage says where logs and records are, and how long they are kept.
	Storage Storage
	// Observe says where statuses, events, logs and metrics go.
	Observe Observe
	// Clock is the engine's time. Nil means the real clock.
	Clock clock.WithTickerAndDelayedExecution

	// Admission says which pods may run. Zero: only pods that could not work are refused.
	Admission Admission
	// Eviction stops pods when the node runs out of memory, disk or process IDs. Nil: no pod
	// is stopped for that. Pods above their own storage limits are stopped in any case.
	Eviction *Eviction
	// ImageGC removes unused images. Nil: no image is ever removed.
	ImageGC *ImageGC
	// NodeHooks are called for the node as a whole. Zero: no hook is called.
	NodeHooks nodehooks.Hooks

	// Pods configures how pods become containers: the node's resolver and hosts files,
	// CPU quotas, back-offs, pulls, volumes, objects, cgroups, security. A nil Updater or Stats means the Runtime, if it has that ability.
	Pods pods.Options
	// Resizes configures in-place resizes of running pods.
	Resizes pods.AllocationOptions
	// Workers configures how often pods are looked at.
	Workers podworkers.Options
	// PLEG configures how the runtime is read. A QuietPeriod of 0 means 5 s, or Period if
	// that is longer; if it equals Period, the pause between lists never changes.
	PLEG pleg.Options
	// Loop configures how sources are read, and the time between housekeeping passes.
	Loop syncloop.Options
	// Status configures how statuses reach the sinks.
	Status status.Options
	// Probes configures probing. A StartSpread of 0 means 1 s.
	Probes probe.Options
	// Outbound says where probes and hooks may connect. Zero: not to link-local addresses, clouds' metadata services and,
	// for pods of a network of their own, the node's loopback (spec/probe.md 11).
	Outbound probe.Outbound
	// Checkpoints configures how the records that survive the agent are kept. A nil
	// Store means one small file per pod in "state/pods" below RootDir.
	Checkpoints checkpoint.Options
	// Cleanup configures housekeeping.
	Cleanup cleanup.Options
	// Mirrors names the API in which mirror pods stand for static pods. Zero: there are no
	// mirror pods. What its Client watches should also be a source, with the name
	// [syncloop.SourceAPI]; see package syncloop/mirror.
	Mirrors mirror.Options
}

// Node describes the node that an engine runs on.
type Node struct {
	// Name is the node's name in pod names, statuses and downward values: a DNS subdomain. Empty: the host name.
	Name string
	// IPs are the node's addresses, primary first. They become host IPs, and
	// pod IPs of pods on the host network. Empty: unknown.
	IPs []string
	// Addresses, if set, returns the node's current addresses, like IPs; IPs counts until its
	// first answer. Statuses follow with each pod's next step. Like the functions below, it is
	// called at most once a second and must not block. While its answer is not good, for example
	// empty or with an entry that is not an IP, the last good one counts (SN1).
	Addresses func() []string
	// ClusterDNS are the addresses of the cluster's name servers and ClusterDomain
	// is the domain they serve, for pods with DNS policy ClusterFirst and pods with
	// a subdomain. Empty: there is no such server, and those pods get the node's settings,
	// with a warning for ClusterFirstWithHostNet; the domain is cluster.local.
	ClusterDNS    []string
	ClusterDomain string
	// OwnerID marks the sandboxes and containers of this engine and limits it to
	// those. Engines that share a runtime need different IDs. Empty: that of the pods in
	// RootDir, or Name if there are none. With another ID than theirs, Run ends with an error.
	OwnerID string
	// BootID identifies this boot of the machine; containers of an earlier boot can
	// no longer be running. Empty: the machine's own.
	BootID string
	// Allocatable is the CPU and memory that pods may request together, which also limits how
	// far running pods may grow, and the node's huge pages and extended resources (such as
	// nvidia.com/gpu). A missing amount defaults to the machine's; extended resources to none.
	Allocatable v1.ResourceList
	// AllocatableNow, if set, returns what is allocatable now; Allocatable counts until its first
	// answer. It is for nodes that grow and shrink, and for devices that come and go. Nil is no
	// answer. Running pods keep what they have (SN2).
	AllocatableNow func() v1.ResourceList
	// Labels are compared with node selectors and required node affinity, in addition to the
	// labels for name, operating system and architecture. Nil: other labels are not compared,
	// with a warning for each pod that asks for one.
	Labels map[string]string
	// Object, if set, returns the node as an API server has it, or nil. Its labels replace Labels,
	// and pods of the API's source that do not tolerate one of its NoExecute taints are refused
	// (SN3). The object is only read, during the call.
	Object func() *v1.Node
}

// Storage says where an engine keeps logs and records, and for how long.
type Storage struct {
	// LogDir is the absolute path of the folder for container logs. Empty:
	// "logs" below RootDir. It belongs to one running engine at a time and to no other
	// program, in particular not to a kubelet: the engine removes every folder in it whose
	// name is that of the log folder of a pod it does not know.
	LogDir string
	// LogLinkDir is the absolute path of a folder that gets one link per started
	// container to its log, <pod>_<namespace>_<container>-<id>.log, as log
	// collectors look for in /var/log/containers. Empty: no links.
	LogLinkDir string
	// LogRotation bounds the logs of running containers. Zero: a log of 10 MiB is
	// rotated, and 5 files per container are kept.
	LogRotation pods.LogRotation
	// DeadContainers says how many dead containers are kept. Zero: one per pod and container name.
	DeadContainers DeadContainers
	// StandInAfter is how long a source may stay silent after a start, or fail, before the engine
	// runs the pods that the source last wanted (spec/syncloop.md SN5). 0: 10 s.
	StandInAfter time.Duration
	// ForgetDesired keeps the engine from running the pods that a silent source last wanted
	// before the start. Pods that still run keep running.
	ForgetDesired bool
}

// Observe says where an engine reports what it does.
type Observe struct {
	// Sinks receive every status as it changes. Nil: only [Engine.Pods] shows it. One that keeps statuses across a
	// restart, or can be read, needs a method Name() string, even if it is the only sink, and a name of its own.
	Sinks []status.StatusSink
	// Events receives events about pods. Nil drops them.
	Events EventRecorder
	// Logger is silent if zero.
	Logger logr.Logger
	// MeterProvider makes the meters of the engine's parts. Nil: no metrics.
	MeterProvider metric.MeterProvider
	// TracerProvider traces pods' starts, steps and stops, and the runtime calls in them
	// (spec/podworkers.md 17). Nil: nothing is traced, and calls are not decorated.
	TracerProvider trace.TracerProvider
}

// Admission says which pods may run on this node (spec/syncloop.md 11). A pod is
// judged once, when its source first names it. A refused pod gets phase Failed with the
// reason and is not judged again, unless it is a static pod that lacked room which has become free (IN14). The verdict
// survives a restart of the agent, except that a static pod which was refused for another reason is judged again (AD5).
//
// The zero value refuses pods that could not work: those that need a host port which
// another pod has, those that set kernel parameters which are neither safe nor
// allowed, and those that ask for what the node lacks, such as an operating system, a label, an
// extended resource or huge pages (FD2). It neither counts pods nor adds up their requests of CPU,
// memory and ephemeral storage. A node that is shutting down, or runs out of a resource that [Config.Eviction] watches, accepts no new pods either.
type Admission struct {
	// MaxPods bounds the pods that run. 0 or negative: no bound.
	MaxPods int
	// FitResources refuses a pod whose requests, together with those of the other pods,
	// do not fit into [Node.Allocatable]. Pods are preempted to make room for a critical one.
	FitResources bool
	// AllowedSysctls are kernel parameters pods may set besides the safe ones; a name, or a prefix that ends in *.
	AllowedSysctls []string
	// Sources says what the pods of a source may do, by its name in [Config.Sources]; "" is for
	// all sources without a policy of their own (PS4). A source that is added later brings its
	// own policy, see [Engine.AddSource]. Nil: every source may do everything.
	Sources map[string]admission.SourcePolicy
	// Handlers are asked after the checks above, in this order: your own, or [admission.PodSecurity] for a level that all
	// sources share. The other handlers of package syncloop/admission are asked by this struct's fields. No pod is
	// preempted for room that one of Handlers finds too small, so what the node has for its pods belongs in
	// MaxPods, FitResources and [Node.Allocatable].
	Handlers []admission.Handler
	// Soft handlers are asked before every setup of a pod (AD6). While one refuses, the pod's containers are stopped
	// and wait with the reason Blocked; it is asked again every 10 s.
	Soft []admission.Handler
}

// Eviction stops pods when the node runs out of memory, disk or process IDs, and pods
// with an emptyDir that is larger than its limit (spec/syncloop.md 16). To free disk space,
// dead containers are removed before a pod is evicted, and unused images if there is an
// [ImageGC]. An evicted pod has ended: it stays Failed, even after a restart. A static
// pod, which no controller recreates, is started again once the pressure has been gone
// for the policy's transition period (IN14).
type Eviction struct {
	// Policy has the limits, including those of your own signals. Zero: the kubelet's hard limits.
	Policy eviction.Policy
	// Stats reads the node and its pods. Nil: this machine.
	Stats eviction.Stats
	// Cgroup is the cgroup of all pods, such as kubepods. If it has a limit, what is left
	// below the limit counts as the node's. Empty: only the machine's memory counts.
	Cgroup string
	// ImageFs is any path on the file system of images. Empty: the path of [ImageGC], or the
	// one that the runtime reports; if neither has one, imagefs is not watched.
	ImageFs string
	// Critical pods are never evicted and always admitted. Nil: those with the priority
	// of a system-critical class, or its name.
	Critical func(pod *v1.Pod) bool
}

// critical returns Critical; it may be called on a nil Eviction.
func (e *Eviction) critical() func(pod *v1.Pod) bool {
	if e == nil {
		return nil
	}
	return e.Critical
}

// ImageGC removes images that no container or pod uses (spec/cleanup.md 8.2). Images have
// no owner: an image that was imported by hand is removed like all others, unless it is
// pinned. For this reason it is off by default.
type ImageGC struct {
	// Policy says when images are removed. Zero: when the disk is 85 % full, those that
	// have been unused longest are removed until it is 80 % full, but none that was first
	// seen less than two minutes ago.
	Policy imagegc.Policy
	// Period is the time between two checks of the images. 0: 5 min.
	Period time.Duration
	// Dir is any path on the file system the images are on. Empty: the runtime is asked
	// for a path (ImageFsInfo), which must then exist on this machine.
	Dir string
	// Keep are names of images that are never removed. The image of the runtime's
	// sandboxes is kept anyway if the runtime pins it or reports its name.
	Keep []string
}

// DeadContainers says how many containers that have ended are kept, with their
// logs. A pod that is gone keeps no dead containers.
type DeadContainers struct {
	// PerName is how many are kept per pod and container name. 0 means 1; fewer is
	// not possible, as the newest one tells how the container ended. Negative: no
	// limit.
	PerName int
	// Total bounds how many there are on the node. Above it the oldest are removed, even if
	// they are the only ones of their name. How those ended stays known, except in pods where
	// the end of one container may restart all: there a run-once container whose last record
	// was removed may run again. 0 or negative: no limit.
	Total int
	// MinAge keeps those that ended less than this long ago. Must not be negative.
	MinAge time.Duration
}
