package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
)

// defaultHard are the kubelet's hard limits.
const defaultHard = "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%"

// evictionOptions are the part of the command line about eviction.
type evictionOptions struct {
	limits   eviction.Text
	maxGrace time.Duration

	thresholds []eviction.Threshold
}

func (o *evictionOptions) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.limits.Hard, "eviction-hard", defaultHard, `stop pods, and start none, when less is left on the node; imagefs counts with a CRI runtime; with --pod-cgroups, memory below its limit counts; "" means never`)
	flags.StringVar(&o.limits.Soft, "eviction-soft", "", "the same for limits that must be met for a while")
	flags.StringVar(&o.limits.SoftGrace, "eviction-soft-grace-period", "", "for how long, for each soft limit, such as memory.available=1m30s")
	flags.StringVar(&o.limits.MinReclaim, "eviction-minimum-reclaim", "", "how much more must be free afterwards, such as nodefs.available=500Mi")
	flags.DurationVar(&o.maxGrace, "eviction-max-pod-grace-period", 0, "most time a pod gets to stop for a soft limit (default: its own)")
}

// complete checks the options.
func (o *evictionOptions) complete() (err error) {
	if o.thresholds, err = o.limits.Parse(); err != nil {
		return fmt.Errorf("--eviction-*: %w", err)
	}
	if o.maxGrace < 0 {
		return fmt.Errorf("--eviction-max-pod-grace-period %v is negative", o.maxGrace)
	}
	return nil
}

// config returns nil if there is no limit.
func (o *evictionOptions) config(cgroup string) *podwright.Eviction {
	if len(o.thresholds) == 0 {
		return nil
	}
	return &podwright.Eviction{Cgroup: cgroup, Policy: eviction.Policy{Thresholds: o.thresholds, MaxPodGrace: o.maxGrace}}
}
