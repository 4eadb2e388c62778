package podwright

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/dirlock"
	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/node"
	"github.com/podwright/podwright/internal/optioncheck"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/privatedir"
	"github.com/podwright/podwright/internal/recovery"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/status/checkpoint"
)

// defaultQuietPeriod is the longest allowed (spec/pleg.md B7): an idle node should
// cost nothing, and the stream reports what happens.
const defaultQuietPeriod = 5 * time.Second

// defaultStartSpread bounds the delay of a probe's first run in the engine's first
// seconds; the probes' slots bound the runs in any case.
const defaultStartSpread = time.Second

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
	problems = append(problems, recovery.CheckSinks(c.Observe.Sinks)...)
	problems = append(problems, c.checkPolicies()...)
	problems = append(problems, c.completeNode()...)
	problems = append(problems, c.completeDirs()...)
	problems = append(problems, c.Storage.complete())
	problems = append(problems, optioncheck.Check(c.engineFields())...)
	c.completeParts()
	return errors.Join(problems...)
}

// checkPolicies refuses a policy for a source that does not exist: the pods it is meant for would
// come from a source with another name, and without the policy.
func (c *Config) checkPolicies() (problems []error) {
	var names []string
	for _, s := range c.Sources {
		if s != nil {
			names = append(names, s.Name())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Admission.Sources)) {
		if name != "" && !slices.Contains(names, name) {
			problems = append(problems, fmt.Errorf("Admission.Sources[%q]: no source has this name, there are %q; a source that is added later brings its policy with AddSource", name, names))
		}
	}
	return problems
}

// buildable reports whether the parts can be made, which is how their options are checked.
func (c *Config) buildable() bool {
	return c.Runtime != nil && c.Images != nil && !slices.Contains(c.Sources, nil) && !slices.Contains(c.Observe.Sinks, nil) &&
		filepath.IsAbs(c.RootDir) && filepath.IsAbs(c.Storage.LogDir)
}

// completeParts fills in the defaults that differ from those of the parts.
func (c *Config) completeParts() {
	if c.Observe.Events == nil {
		c.Observe.Events = podinfo.DiscardEvents{}
	}
	if c.Observe.MeterProvider == nil {
		c.Observe.MeterProvider = noop.NewMeterProvider()
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.PLEG.QuietPeriod == 0 {
		c.PLEG.QuietPeriod = max(defaultQuietPeriod, c.PLEG.Period)
	}
	if c.Probes.StartSpread == 0 {
		c.Probes.StartSpread = defaultStartSpread
	}
	if c.Pods.Updater == nil {
		c.Pods.Updater, _ = c.Runtime.(cri.ResourceUpdater)
	}
	if c.Pods.Stats == nil {
		c.Pods.Stats, _ = c.Runtime.(cri.StatsReader)
	}
}

// engineFields lists, for each part, the options that the engine sets.
func (c *Config) engineFields() []optioncheck.Part {
	return []optioncheck.Part{
		{Group: "Pods", Options: c.Pods, Engine: map[string]string{
			"RootDir": "RootDir", "LogDir": "Storage.LogDir", "LinkDir": "Storage.LogLinkDir", "OwnerID": "Node.OwnerID",
			"NodeName": "Node.Name", "HostIPs": "Node.IPs", "ClusterDNS": "Node.ClusterDNS", "ClusterDomain": "Node.ClusterDomain",
			"Allocatable": "Node.Allocatable", "Allocations": "Resizes", "Probes": "Probes", "Outbound": "Outbound",
			"Reader": "", "Hidden": "", "Gone": "", "Sequence": "", "BeforeRemove": "", "NextRun": "", "Restarts": "", "RecordRestarts": "",
			"Clock": "Clock", "Logger": "Observe.Logger", "Events": "Observe.Events", "Meter": "Observe.MeterProvider",
		}, Negative: []string{"PostStartTimeout"}},
		{Group: "Resizes", Options: c.Resizes, Engine: map[string]string{
			"Store": "", "Allocatable": "Node.Allocatable", "Active": "", "Wake": "", "NoUpdate": "Pods.Updater",
			"Clock": "Clock", "Events": "Observe.Events",
		}},
		{Group: "Workers", Options: c.Workers, Engine: map[string]string{
			"Views": "", "SourcesReady": "", "KillOrphan": "", "Spared": "", "Doing": "", "Journal": "",
			"Clock": "Clock", "Logger": "Observe.Logger", "Events": "Observe.Events", "Meter": "Observe.MeterProvider",
		}},
		{Group: "PLEG", Options: c.PLEG, Engine: map[string]string{
			"View": "", "OwnerID": "Node.OwnerID", "Sequence": "", "Streamer": "Runtime",
			"Clock": "Clock", "Logger": "Observe.Logger", "Recorder": "Observe.Events", "Meter": "Observe.MeterProvider",
		}},
		{Group: "Loop", Options: c.Loop, Engine: map[string]string{
			"Sources": "Sources", "Admission": "Admission", "Changes": "", "Housekeeper": "", "Gate": "", "Review": "", "Owner": "", "Lower": "", "Admitted": "", "Observed": "", "Evicted": "",
			"Clock": "Clock", "Logger": "Observe.Logger", "Recorder": "Observe.Events", "Meter": "Observe.MeterProvider",
		}},
		{Group: "Status", Options: c.Status, Engine: map[string]string{
			"Sinks": "Observe.Sinks", "CouldHaveRunningContainers": "", "Mirrors": "Mirrors", "Journal": "",
			"Clock": "Clock", "Logger": "Observe.Logger", "Meter": "Observe.MeterProvider",
		}},
		{Group: "Probes", Options: c.Probes, Engine: map[string]string{
			"Pods": "", "Runtime": "Runtime", "Memory": "", "OnResult": "", "Outbound": "Outbound", "EveryEvent": "Pods.EveryEvent",
			"Clock": "Clock", "Logger": "Observe.Logger", "Events": "Observe.Events", "Meter": "Observe.MeterProvider",
		}},
		{Group: "Checkpoints", Options: c.Checkpoints, Engine: map[string]string{
			"BootID": "Node.BootID", "Written": "",
			"Clock": "Clock", "Logger": "Observe.Logger", "Meter": "Observe.MeterProvider",
		}},
		{Group: "Cleanup", Options: c.Cleanup, Engine: map[string]string{
			"SourcesReady": "", "Undecided": "", "Hold": "", "Dropped": "", "Gate": "", "Withheld": "", "Statuses": "", "CleanupProbes": "", "Content": "",
			"Collector": "", "Cgroups": "", "UserRanges": "", "Mirrors": "", "PruneBackOffs": "", "Rule": "", "Again": "",
			"Clock": "Clock", "Logger": "Observe.Logger", "Meter": "Observe.MeterProvider",
		}},
		{Group: "Mirrors", Options: c.Mirrors, Engine: map[string]string{"Clock": "Clock", "Logger": "Observe.Logger"}},
	}
}

// completeNode fills in and checks what describes the node.
func (c *Config) completeNode() (problems []error) {
	if c.Node.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			problems = append(problems, fmt.Errorf("Node.Name is empty and the host name cannot be read: %w", err))
		}
		c.Node.Name = name
	}
	c.Node.OwnerID = dirlock.OwnerOf(c.RootDir, c.Node.OwnerID, c.Node.Name, c.Observe.Logger)
	named := node.Description{Name: c.Node.Name, IPs: c.Node.IPs, ClusterDNS: c.Node.ClusterDNS, ClusterDomain: c.Node.ClusterDomain}
	return append(problems, named.Check()...)
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
	if c.Storage.LogDir == "" {
		c.Storage.LogDir = filepath.Join(c.RootDir, "logs")
	}
	if !filepath.IsAbs(c.Storage.LogDir) {
		return []error{fmt.Errorf("Storage.LogDir %q is not absolute", c.Storage.LogDir)}
	}
	for _, dir := range []struct{ field, path string }{{"RootDir", c.RootDir}, {"Storage.LogDir", c.Storage.LogDir}} {
		if err := durable.CheckFolder(dir.path); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", dir.field, err))
		}
	}
	if err := privatedir.Check(c.RootDir); err != nil {
		problems = append(problems, fmt.Errorf("RootDir: %w", err))
	}
	if c.Checkpoints.Store == nil {
		c.Checkpoints.Store = checkpoint.NewFiles(checkpoint.Dir(filepath.Join(c.RootDir, "state", "pods")))
	}
	if err := c.Checkpoints.CheckKeys(); err != nil {
		problems = append(problems, fmt.Errorf("Checkpoints.Keys: %w", err))
		c.Checkpoints.Keys, c.Checkpoints.TrustPlain = nil, false // so that the other parts are checked too
	}
	if c.Node.BootID == "" {
		c.Node.BootID = recovery.ReadBootID()
	}
	return problems
}

func (s *Storage) complete() (problems error) {
	if s.DeadContainers.MinAge < 0 {
		problems = fmt.Errorf("Storage.DeadContainers.MinAge is negative: %v", s.DeadContainers.MinAge)
	}
	if s.StandInAfter < 0 {
		problems = errors.Join(problems, fmt.Errorf("Storage.StandInAfter is negative: %v", s.StandInAfter))
	}
	return problems
}
