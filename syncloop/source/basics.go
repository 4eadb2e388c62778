package source

import (
	"errors"
	"fmt"
	"math"
	"time"

	"go.opentelemetry.io/otel/metric"
	"k8s.io/utils/clock"
)

// defaultPeriod is the time between polls.
const defaultPeriod = 20 * time.Second

// defaultMost is the default limit of the pods in a list and of the files in a folder (SRC6).
const defaultMost = 1000

// ErrTooMany: the list has more pods, or the folder more files, than the source accepts (SRC6).
var ErrTooMany = errors.New("too many")

// setMost completes a limit: zero means the default, a negative number no limit.
func setMost(most *int) {
	setDefault(most, defaultMost)
	if *most < 0 {
		*most = math.MaxInt
	}
}

// basics are the options with a default that all manifest sources have.
type basics struct {
	name   *string
	period *time.Duration
	clock  *clock.Clock
	most   *int
}

// complete fills in the options that were left out, and makes the decoder and the
// metrics that every manifest source needs. It returns all problems.
func (b basics) complete(defaultName, node string, references bool, meter metric.Meter) (*decoder, *fileMetrics, []error) {
	var problems []error
	if *b.period < 0 {
		problems = append(problems, errors.New("the period must not be negative"))
	}
	setDefault(b.name, defaultName)
	setDefault(b.period, defaultPeriod)
	setMost(b.most)
	if *b.clock == nil {
		*b.clock = clock.RealClock{}
	}
	d, err := newDecoder(node, references)
	if err != nil {
		problems = append(problems, err)
	}
	m, err := newFileMetrics(meter, *b.name)
	if err != nil {
		problems = append(problems, fmt.Errorf("metrics: %w", err))
	}
	return d, m, problems
}
