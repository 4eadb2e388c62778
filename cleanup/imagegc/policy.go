package imagegc

import (
	"errors"
	"fmt"
	"time"
)

// Defaults of [Policy] and [Options] (IG1).
const (
	defaultHighPercent = 85
	defaultLowPercent  = 80
	DefaultMinAge      = 2 * time.Minute
	DefaultPeriod      = 5 * time.Minute // cleanup.md 1
)

// Policy says when images are removed. The zero value takes the defaults.
type Policy struct {
	// HighPercent is how full the disk is, in percent, when removal begins; LowPercent is where it
	// stops. 0 takes the defaults of 85 and 80. At 100, nothing is removed for space.
	HighPercent, LowPercent int
	// MinAge protects images first seen less than this long ago, except from MaxAge. 0 takes the
	// default of 2 min; negative means no protection.
	MinAge time.Duration
	// MaxAge removes images that have not been used for longer than this, however empty the disk
	// is. 0 means never.
	MaxAge time.Duration
}

// complete fills in defaults and reports every problem (IG1).
func (p Policy) complete() (Policy, error) {
	if p.HighPercent == 0 {
		p.HighPercent = defaultHighPercent
	}
	if p.LowPercent == 0 {
		p.LowPercent = min(defaultLowPercent, p.HighPercent)
	}
	if p.MinAge == 0 {
		p.MinAge = DefaultMinAge
	}
	p.MinAge = max(p.MinAge, 0)
	var problems []error
	for _, x := range []struct {
		name  string
		value int
	}{{"HighPercent", p.HighPercent}, {"LowPercent", p.LowPercent}} {
		if x.value < 0 || x.value > 100 {
			problems = append(problems, fmt.Errorf("%s is %d, want 0 to 100", x.name, x.value))
		}
	}
	if p.LowPercent > p.HighPercent {
		problems = append(problems, fmt.Errorf("LowPercent %d is above HighPercent %d", p.LowPercent, p.HighPercent))
	}
	if p.MaxAge < 0 {
		problems = append(problems, errors.New("MaxAge is negative"))
	}
	return p, errors.Join(problems...)
}
