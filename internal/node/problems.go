package node

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/internal/problem"
)

const (
	// problemPeriod is the time between two looks at the problems, for the log. A problem that is
	// over before it is this old is not logged.
	problemPeriod = 5 * time.Second
	// problemLines bounds the lines that one look writes.
	problemLines = 20
)

// Problems joins the problems of all parts. List may be called from anywhere; it changes nothing.
type Problems struct {
	Clock  clock.WithTicker
	Logger logr.Logger
	Meter  metric.Meter
	// Parts return the problems of each part; they must not block. The list must not change after
	// Run was called.
	Parts []func() []problem.Problem
}

// List returns what has been waiting too long, sorted by when it began, then by name.
func (p *Problems) List() []problem.Problem { return problem.List(p.Parts...) }

// Run logs each problem when it appears and when it is over, and exports the number of problems as
// a gauge by kind, until ctx ends.
func (p *Problems) Run(ctx context.Context) error {
	withdraw, err := p.export()
	if err != nil {
		p.Logger.Error(err, "the number of problems is not shown as a metric")
	} else {
		defer withdraw()
	}
	logged := problemLog{logger: p.Logger, known: map[subject]problem.Problem{}}
	ticker := p.Clock.NewTicker(problemPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			logged.look(p.List(), p.Clock.Now())
		}
	}
}

// export registers the gauge.
func (p *Problems) export() (withdraw func(), err error) {
	set := instrument.New(p.Meter)
	gauge := set.ReadGauge("podwright_problems", "Things that wait longer than they should, by kind.", instrument.By("kind",
		"pod", "runtimeCall", "runtime", "network", "reading", "loop", "housekeeping", "removal", "source", "sink", "record", "recovery",
		"probe", "function", "stop"))
	if err := set.Err(); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return set.Export(func(o metric.Observer) {
		count := map[problem.Kind]int64{}
		for _, x := range p.List() {
			count[x.Kind]++
		}
		for _, kind := range problem.Kinds() {
			o.ObserveInt64(gauge, count[kind], instrument.Labels("kind", string(kind)))
		}
	})
}

// subject identifies what the log counts as one problem.
type subject struct {
	kind problem.Kind
	name string
	uid  types.UID
}

// problemLog writes one line when a problem appears, and one when it is over.
type problemLog struct {
	logger logr.Logger
	known  map[subject]problem.Problem
}

// look processes the current problems.
func (l *problemLog) look(all []problem.Problem, now time.Time) {
	lines, more := 0, 0
	say := func(text string, x problem.Problem) {
		if lines++; lines > problemLines {
			more++
			return
		}
		l.logger.Info(text, "kind", x.Kind, "name", x.Name, "uid", x.UID, "since", x.Since, "severity", x.Severity, "problem", x.String())
	}
	present := map[subject]bool{}
	for _, x := range all {
		s := subject{x.Kind, x.Name, x.UID}
		present[s] = true
		if _, known := l.known[s]; known || now.Sub(x.Since) < problemPeriod {
			continue
		}
		l.known[s] = x
		say("A problem appeared", x)
	}
	for s, x := range l.known {
		if !present[s] {
			delete(l.known, s)
			say("A problem is over", x)
		}
	}
	if more > 0 {
		l.logger.Info("More problems appeared or ended; Engine.Problems lists them all", "more", more)
	}
}
