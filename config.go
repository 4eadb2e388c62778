package podwright

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
)

// EventRecorder takes the events of pods, in the shape of client-go's recorder.
// object is a *v1.Pod, or a *v1.ObjectReference to one (with a field path if a
// container is meant) or to the node. Eventf is called from many goroutines and must not block.
type EventRecorder interface {
	Eventf(object apiruntime.Object, eventtype, reason, messageFmt string, args ...any)
}

// Config configures an [Engine]. Runtime, Images, Sources and RootDir are
// required; every other field has a useful zero value. What it points to is shared with
// the engine and must not be changed after [New]. Durations below 0 are refused, except
// where a field says what they mean.
type Config struct {
	// Runtime runs the containers. Required. If it is also a
	// [runtime.EventStreamer], its events make reactions faster.
	Runtime runtime.RuntimeService
	// Images is the runtime's image store. Required.
	Images runtime.ImageService
	// Sources say which pods are desired. At least one is required, because an
	// engine without sources would take everything it finds for left over. Names
	// must be unique.
	Sources []syncloop.Source
	// RootDir is the absolute path of the engine's own folder: pods' volumes and
	// hosts files. Required; created with mode 0750 if missing. It belongs to
	// one running engine at a time.
	RootDir string

	// Admission says which pods may run. Zero: those that could not work are refused,
	// for a port of the node or a kernel parameter.
	Admission Admission
	// Mirrors says where the twins of static pods are kept. Zero: nowhere.
	Mirrors Mirrors
	// SourceDeadline is how long after it was started a source may stay silent before
	// it counts as heard, as if it wanted no pod: what it wanted before is stopped
	// then, unless it is run from memory. 0: for ever, which is safe.
	SourceDeadline time.Duration

	// Checkpoints keeps what must survive the agent, see package status/checkpoint.
	// Nil: one small file per pod in "state/pods" below RootDir.
	Checkpoints checkpoint.Store
	// ForgetDesired: pods of a source that does not answer after the start are not
	// run as they were last desired. They go on if they run.
	ForgetDesired bool
	// BootID names this boot of the machine; containers of an earlier one cannot
	// run any more. Empty: what the machine says.
	BootID string

	// LogDir is the absolute path of the folder for container logs. Empty:
	// "logs" below RootDir. It belongs to one running engine at a time, and to nobody
	// else: a folder in it that is called like one for the logs of a pod, and whose pod
	// the engine does not know, is taken for what a gone pod left, and removed. So it
	// must not be that of a kubelet.
	LogDir string
	// LogLinkDir is the absolute path of a folder that gets one link per started
	// container to its log, <pod>_<namespace>_<container>-<id>.log, as log
	// collectors look for in /var/log/containers. Empty: no links.
	LogLinkDir string
	// LogRotation bounds the logs of running containers. Zero: a log of 10 MiB is
	// rotated, and 5 files per container are kept.
	LogRotation pods.LogRotation
	// DeadContainers says how many dead containers are kept. Zero: one per pod and
	// container name.
	DeadContainers DeadContainers
	// ImageGC removes unused images. Nil: none is ever removed.
	ImageGC *ImageGC
	// Cleanup tunes housekeeping.
	Cleanup Cleanup
	// NodeName is the node's name in pod names, statuses and downward values: a
	// DNS subdomain. Empty: the host name.
	NodeName string
	// NodeIPs are the node's addresses, primary first. They become host IPs, and
	// pod IPs of pods on the host network. Empty: unknown.
	NodeIPs []string
	// ClusterDNS are the addresses of the cluster's name servers and ClusterDomain
	// is the domain they serve, for pods with DNS policy ClusterFirst and pods with
	// a subdomain. Empty: there is no such server, those pods get the node's
	// settings and a warning; the domain is cluster.local.
	ClusterDNS    []string
	ClusterDomain string
	// RuntimeClasses knows the runtime classes. Nil: only the runtime's default
	// handler can be used, a pod that names a class waits.
	RuntimeClasses pods.RuntimeClassGetter
	// UserNamespaces is the pool of user IDs for pods with hostUsers: false. Zero:
	// 1024 ranges of 65536 IDs from 65536 on.
	UserNamespaces pods.UserNamespaces
	// SeccompDefault gives containers without a seccomp profile the runtime's
	// default instead of none.
	SeccompDefault bool
	// Swap and MemoryQoS tune the memory of containers. Zero: no swap, nothing
	// throttled.
	Swap      pods.SwapBehavior
	MemoryQoS pods.MemoryQoS
	// DefaultSysctls are set in every pod that owns the namespace they belong to
	// and does not set them itself.
	DefaultSysctls map[string]string
	// OwnerID marks the sandboxes and containers of this engine and limits it to
	// those. Engines that share a runtime need different ones, and an engine
	// needs the same one after a restart. Empty: NodeName.
	OwnerID string

	// Objects gives the config maps and secrets that pods refer to. Nil: there are
	// none, and a pod that needs one waits with a reason that says so.
	Objects pods.ObjectGetter
	// Services gives the services whose addresses containers find in their
	// environment. Nil: they are told of none.
	Services pods.ServiceLister
	// Volumes makes the volumes that the engine does not make itself, such as
	// CSI's. Nil: pods that need one wait, with a reason that says so.
	Volumes pods.VolumeManager
	// Sinks receive the status of every pod as it changes. Nil: nobody does;
	// [Engine.Pods] still shows it.
	Sinks []status.StatusSink
	// Events receives events about pods. Nil drops them.
	Events EventRecorder
	// EveryEvent also passes on events of containers that repeat an earlier one
	// word for word, for recorders that count themselves, as client-go's does.
	// Otherwise such an event is passed on when it has come 1, 2, 4, 8... times.
	EveryEvent bool

	// SyncFrequency is the pause between two looks at a healthy pod. 0 means 60 s.
	SyncFrequency time.Duration
	// RelistPeriod is the pause between two readings of the whole runtime.
	// 0 means 1 s.
	RelistPeriod time.Duration
	// QuietRelistPeriod takes the place of RelistPeriod while the runtime's event
	// stream is up and nothing has changed for 10 s; without a stream it is not
	// used. It bounds how late a change is seen whose event was lost. 0 means 5 s,
	// or RelistPeriod if that is longer; values above are refused. With the value
	// of RelistPeriod the pause is always the same.
	QuietRelistPeriod time.Duration
	// HousekeepingPeriod is the time between two housekeeping passes that
	// nothing triggered. 0 means 2 s.
	HousekeepingPeriod time.Duration
	// CrashLoopBackOff delays restarts of containers that keep exiting. Zero:
	// 10 s doubling to 300 s.
	CrashLoopBackOff pods.BackOffPolicy
	// CrashLoopByExit has other delays for some classes of exits; see
	// [pods.Options]. Nil: all exits are alike.
	CrashLoopByExit map[pods.ExitClass]pods.BackOffPolicy
	// PostStartTimeout bounds postStart hooks. 0 means 10 min, negative no bound.
	PostStartTimeout time.Duration
	// NoSidecarRestart leaves a sidecar alone that exits while its pod ends.
	// Otherwise it is started again as long as an app container runs.
	NoSidecarRestart bool
	// ImageBackOff delays pulls of images that could not be pulled. Zero: 10 s
	// doubling to 300 s.
	ImageBackOff pods.BackOffPolicy
	// MaxParallelImagePulls bounds concurrent pulls. 0: one at a time; negative:
	// no bound.
	MaxParallelImagePulls int
	// ImagePull says the rest about pulls: their rate, the node's credentials, and
	// which images need credentials even if they are present. The zero value has
	// no limit, no node credentials, and verifies what was pulled with a secret.
	ImagePull pods.ImagePullOptions
	// Probes configures probing. Its Pods, Runtime, Memory, OnResult, Events, Clock,
	// Logger and Meter are the engine's own, and a zero StartSpread means 1 s. The zero
	// value probes exactly as pods say.
	Probes probe.Options
	// MaxSetup bounds the pods being set up at the same time. 0 means 32,
	// negative no bound. Pods being stopped have their own bound.
	MaxSetup int
	// DrainTimeout is how long Run, once its context has ended, lets calls that
	// stop pods finish. 0 means 30 s.
	DrainTimeout time.Duration

	// Allocatable is the CPU and memory that pods may request together, which limits
	// how far running pods may grow. What is missing is the machine's.
	Allocatable v1.ResourceList
	// Cgroups keeps one cgroup per pod, such as package runtime/pods/cgroups does on
	// Linux. Nil: pods have none of their own. Pods that run when it is first used
	// are restarted once.
	Cgroups pods.Cgroups

	// Eviction stops pods when the node runs out of memory, disk or process IDs. Nil: no
	// pod is stopped for that.
	Eviction *Eviction
	// NodeHooks are called for the node as a whole. Zero: nothing is.
	NodeHooks NodeHooks

	// Clock is the engine's time. Nil means the real clock.
	Clock clock.WithTickerAndDelayedExecution
	// Logger is silent if zero.
	Logger logr.Logger
	// MeterProvider makes the meters of the engine's parts. Nil: no metrics.
	MeterProvider metric.MeterProvider
}

// defaultQuietRelistPeriod is the longest there is (spec/pleg.md B7): an idle node
// should cost nothing, and the stream reports what happens.
const defaultQuietRelistPeriod = 5 * time.Second

// complete fills in defaults and reports every problem at once.
func (c *Config) complete() error {
	var problems []error
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf(format, args...))
	}
	if c.Runtime == nil {
		problem("Runtime is required")
	}
	if c.Images == nil {
		problem("Images is required")
	}
	if len(c.Sources) == 0 {
		problem("Sources is empty: at least one source must say which pods are desired")
	}
	for i, s := range c.Sources {
		if s == nil {
			problem("Sources[%d] is nil", i)
		}
	}
	for i, s := range c.Sinks {
		if s == nil {
			problem("Sinks[%d] is nil", i)
		}
	}
	problems = append(problems, c.completeNode()...)
	for name, d := range map[string]time.Duration{
		"SyncFrequency": c.SyncFrequency, "RelistPeriod": c.RelistPeriod, "QuietRelistPeriod": c.QuietRelistPeriod,
		"HousekeepingPeriod": c.HousekeepingPeriod, "DrainTimeout": c.DrainTimeout, "SourceDeadline": c.SourceDeadline,
	} {
		if d < 0 {
			problem("%s is negative: %v", name, d)
		}
	}
	if c.QuietRelistPeriod == 0 {
		c.QuietRelistPeriod = max(defaultQuietRelistPeriod, c.RelistPeriod)
	}
	problems = append(problems, c.completeDirs()...)
	problems = append(problems, c.DeadContainers.complete())
	if c.Events == nil {
		c.Events = noEvents{}
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.MeterProvider == nil {
		c.MeterProvider = noop.NewMeterProvider()
	}
	return errors.Join(problems...)
}

// completeNode fills in and checks what describes the node.
func (c *Config) completeNode() (problems []error) {
	if c.NodeName == "" {
		name, err := os.Hostname()
		if err != nil {
			problems = append(problems, fmt.Errorf("NodeName is empty and the host name cannot be read: %w", err))
		}
		c.NodeName = name
	}
	for _, msg := range validation.IsDNS1123Subdomain(c.NodeName) {
		problems = append(problems, fmt.Errorf("NodeName %q: %s", c.NodeName, msg))
	}
	if c.OwnerID == "" {
		c.OwnerID = c.NodeName
	}
	for i, ip := range c.NodeIPs {
		if _, err := netip.ParseAddr(ip); err != nil {
			problems = append(problems, fmt.Errorf("NodeIPs[%d]: %w", i, err))
		}
	}
	for i, ip := range c.ClusterDNS {
		if _, err := netip.ParseAddr(ip); err != nil {
			problems = append(problems, fmt.Errorf("ClusterDNS[%d]: %w", i, err))
		}
	}
	if c.ClusterDomain != "" {
		for _, msg := range validation.IsDNS1123Subdomain(c.ClusterDomain) {
			problems = append(problems, fmt.Errorf("ClusterDomain %q: %s", c.ClusterDomain, msg))
		}
	}
	return problems
}

// completeDirs fills in and checks the folders, and creates them.
func (c *Config) completeDirs() (problems []error) {
	if c.RootDir == "" {
		return []error{errors.New("RootDir is required")}
	}
	if !filepath.IsAbs(c.RootDir) {
		return []error{fmt.Errorf("RootDir %q is not absolute", c.RootDir)}
	}
	c.RootDir = filepath.Clean(c.RootDir)
	if c.LogDir == "" {
		c.LogDir = filepath.Join(c.RootDir, "logs")
	}
	if !filepath.IsAbs(c.LogDir) {
		return []error{fmt.Errorf("LogDir %q is not absolute", c.LogDir)}
	}
	for _, dir := range []struct{ field, path string }{{"RootDir", c.RootDir}, {"LogDir", c.LogDir}} {
		if err := writable(dir.path); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", dir.field, err))
		}
	}
	if c.Checkpoints == nil {
		c.Checkpoints = checkpoint.NewFiles(checkpoint.Dir(filepath.Join(c.RootDir, "state", "pods")))
	}
	if c.BootID == "" {
		c.BootID = readBootID()
	}
	return problems
}

// writable creates a folder and proves that files can be made in it.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("cannot be created: %w", err)
	}
	f, err := os.CreateTemp(dir, ".write-test-")
	if diskFault(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot be written: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// diskFault reports whether an error is the disk's state, not a mistake in the
// configuration: an agent starts on a full or read-only disk too, to look after what
// runs, and says what is wrong (spec/cleanup.md CK8).
func diskFault(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EIO)
}

// noEvents drops events.
type noEvents struct{}

func (noEvents) Eventf(apiruntime.Object, string, string, string, ...any) {}
