package main

import (
	"flag"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
)

// defaultHard are the kubelet's hard limits.
const defaultHard = "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%"

// upkeep is the part of the command line that keeps a node from filling up. Its defaults are the
// kubelet's.
type upkeep struct {
	hard     string
	logSize  string
	logFiles int
	maxPods  int
	// system and agent are the resources that each of them needs, as in --system-reserved and --kube-reserved.
	system, agent string
}

func (u *upkeep) register(flags *flag.FlagSet) {
	flags.StringVar(&u.hard, "eviction-hard", defaultHard, `what the node must have left: below it pods are evicted, and none is taken; "" means never`)
	flags.StringVar(&u.logSize, "container-log-max-size", "10Mi", "`size` at which a container's log is rotated; 0: never")
	flags.IntVar(&u.logFiles, "container-log-max-files", 5, "how many log `files` a container may have, at least 2")
	flags.IntVar(&u.maxPods, "max-pods", 110, "how many `pods` the Node says it takes")
	flags.StringVar(&u.agent, "kube-reserved", "", "`amounts` that pods may not have because kubenode and the container runtime need them, such as cpu=100m,memory=200Mi,ephemeral-storage=1Gi")
	flags.StringVar(&u.system, "system-reserved", "", "`amounts` that pods may not have because the system needs them, such as cpu=100m,memory=200Mi,ephemeral-storage=1Gi")
}

// reserved returns the resources that pods may not have, or what is wrong with the flags.
func (u *upkeep) reserved() (v1.ResourceList, error) {
	sum := v1.ResourceList{}
	for _, f := range []struct{ name, text string }{{"kube-reserved", u.agent}, {"system-reserved", u.system}} {
		if f.text == "" {
			continue
		}
		for pair := range strings.SplitSeq(f.text, ",") {
			name, value, _ := strings.Cut(pair, "=")
			amount, err := resource.ParseQuantity(strings.TrimSpace(value))
			if err != nil || amount.Sign() < 0 {
				return nil, fmt.Errorf("--%s %q: want amounts such as cpu=100m,memory=200Mi", f.name, f.text)
			}
			switch name := v1.ResourceName(strings.TrimSpace(name)); name {
			case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage:
				amount.Add(sum[name])
				sum[name] = amount
			default:
				return nil, fmt.Errorf("--%s: %q is none of cpu, memory and ephemeral-storage", f.name, name)
			}
		}
	}
	return sum, nil
}

// apply puts the options into the configuration of an engine, or says what is wrong with them.
// Unused images are removed when the disk is 85 % full.
func (u *upkeep) apply(config *podwright.Config) error {
	thresholds, err := eviction.Text{Hard: u.hard}.Parse()
	if err != nil {
		return fmt.Errorf("--eviction-hard: %w", err)
	}
	size, err := resource.ParseQuantity(u.logSize)
	switch {
	case err != nil:
		return fmt.Errorf("--container-log-max-size %q: want a number of bytes such as 10Mi", u.logSize)
	case u.logFiles < 2:
		return fmt.Errorf("--container-log-max-files %d: at least 2 are needed, the log and a rotated one", u.logFiles)
	case u.maxPods < 1:
		return fmt.Errorf("--max-pods %d: a node takes at least 1", u.maxPods)
	}
	config.Storage.LogRotation.MaxSize, config.Storage.LogRotation.MaxFiles = size.Value(), u.logFiles
	if size.Sign() <= 0 {
		config.Storage.LogRotation.MaxSize = -1
	}
	if len(thresholds) > 0 {
		config.Eviction = &podwright.Eviction{Policy: eviction.Policy{Thresholds: thresholds}}
	}
	config.ImageGC = &podwright.ImageGC{}
	config.Admission = podwright.Admission{MaxPods: u.maxPods, FitResources: true}
	return nil
}
