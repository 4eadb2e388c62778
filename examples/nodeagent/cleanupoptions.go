package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/imagegc"
)

// deadOptions are the part of the command line about containers that have ended.
type deadOptions struct {
	perName, total int
	minAge         time.Duration
}

func (o *deadOptions) register(flags *pflag.FlagSet) {
	flags.IntVar(&o.perName, "dead-containers-per-name", 1, "how many ended containers are kept, with their logs, per pod and container name, at least 1; negative: all")
	flags.IntVar(&o.total, "dead-containers-total", -1, "how many ended containers are kept on the node; above it the oldest go; negative: no limit")
	flags.DurationVar(&o.minAge, "dead-containers-min-age", 0, "keep containers that ended less than this long ago, whatever the limits")
}

// complete checks the options. The engine reads 0 as its default, which is not what a user means by
// typing 0.
func (o *deadOptions) complete() error {
	var problems []error
	if o.perName == 0 {
		problems = append(problems, errors.New("--dead-containers-per-name 0: at least 1 is kept, as the newest one tells how the container ended"))
	}
	if o.total == 0 {
		problems = append(problems, errors.New("--dead-containers-total 0: want at least 1, or -1 for no limit"))
	}
	if o.minAge < 0 {
		problems = append(problems, fmt.Errorf("--dead-containers-min-age %v is negative", o.minAge))
	}
	return errors.Join(problems...)
}

func (o *deadOptions) config() podwright.DeadContainers {
	return podwright.DeadContainers{PerName: o.perName, Total: o.total, MinAge: o.minAge}
}

// imageOptions are the part of the command line about unused images.
type imageOptions struct {
	high, low      int
	minAge, maxAge time.Duration
	period         time.Duration
}

func (o *imageOptions) register(flags *pflag.FlagSet) {
	flags.IntVar(&o.high, "image-gc-high", 0, "remove unused images, the longest unused first, when their disk is so many percent full, such as 85; needs a CRI runtime (default: never)")
	flags.IntVar(&o.low, "image-gc-low", 0, "until it is so many percent full (default: 5 less)")
	flags.DurationVar(&o.minAge, "image-gc-min-age", imagegc.DefaultMinAge, "but none that was first seen less than this long ago")
	flags.DurationVar(&o.maxAge, "image-gc-max-age", 0, "remove images unused for longer than this, however empty the disk is; needs a CRI runtime (default: never)")
	flags.DurationVar(&o.period, "image-gc-period", imagegc.DefaultPeriod, "time between two looks at the images")
}

// complete checks the options.
func (o *imageOptions) complete(runtime string) error {
	var problems []error
	for _, percent := range []struct {
		name  string
		value int
	}{{"high", o.high}, {"low", o.low}} {
		if percent.value < 0 || percent.value > 100 {
			problems = append(problems, fmt.Errorf("--image-gc-%s %d: want a percentage", percent.name, percent.value))
		}
	}
	switch {
	case o.low > 0 && o.high == 0:
		problems = append(problems, errors.New("--image-gc-low means nothing without --image-gc-high"))
	case o.low > o.high:
		problems = append(problems, fmt.Errorf("--image-gc-low %d is above --image-gc-high %d", o.low, o.high))
	}
	for _, age := range []struct {
		name  string
		value time.Duration
	}{{"min-age", o.minAge}, {"max-age", o.maxAge}} {
		if age.value < 0 {
			problems = append(problems, fmt.Errorf("--image-gc-%s %v is negative", age.name, age.value))
		}
	}
	if o.period <= 0 {
		problems = append(problems, fmt.Errorf("--image-gc-period %v: want a time above 0", o.period))
	}
	if (o.high > 0 || o.maxAge > 0) && runtime == "process" {
		problems = append(problems, errors.New("--image-gc-high and --image-gc-max-age need a CRI runtime: plain processes have no images"))
	}
	return errors.Join(problems...)
}

// config returns nil if images are never removed.
func (o *imageOptions) config() *podwright.ImageGC {
	if o.high == 0 && o.maxAge == 0 {
		return nil
	}
	policy := imagegc.Policy{HighPercent: o.high, LowPercent: o.low, MinAge: o.minAge, MaxAge: o.maxAge}
	if o.high == 0 {
		policy.HighPercent = 100 // by age only
	}
	if o.low == 0 {
		policy.LowPercent = max(policy.HighPercent-5, 1)
	}
	if o.minAge == 0 {
		policy.MinAge = -1 // zero means the default there
	}
	return &podwright.ImageGC{Policy: policy, Period: o.period}
}
