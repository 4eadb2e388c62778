package probe

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/probe/internal/decide"
)

// Defaults of section 1.
const (
	defaultPeriod  = 10 * time.Second
	defaultTimeout = time.Second
	defaultFailure = 3
)

// maxTimeoutPeriods bounds an overridden timeout (9.6).
const maxTimeoutPeriods = 10

// timingOf reads a probe's timing. Zero or negative values become the defaults, which the API
// server would have set (1.3).
func timingOf(p *v1.Probe) Timing {
	seconds := func(n int32, zero time.Duration) time.Duration {
		if n <= 0 {
			return zero
		}
		return timing.Seconds(int64(n))
	}
	return Timing{
		InitialDelay: seconds(p.InitialDelaySeconds, 0),
		Period:       seconds(p.PeriodSeconds, defaultPeriod),
		Timeout:      seconds(p.TimeoutSeconds, defaultTimeout),
	}
}

// thresholdsOf reads a probe's thresholds; startup and liveness need one success (1.3).
func thresholdsOf(k Kind, p *v1.Probe) decide.Thresholds {
	t := decide.Thresholds{Success: max(p.SuccessThreshold, 1), Failure: p.FailureThreshold}
	if k != Readiness {
		t.Success = 1
	}
	if t.Failure <= 0 {
		t.Failure = defaultFailure
	}
	return t
}

// shortest returns the shortest period of a probe whose timing is overridden.
func (o *Options) shortest(p *v1.Probe) time.Duration {
	if p.Exec != nil && !o.SubSecondExec {
		return max(o.MinPeriod, time.Second)
	}
	return o.MinPeriod
}

// timing returns a worker's timing, overridden within bounds (9.6).
func (m *Manager) timing(pod *v1.Pod, container string, k Kind, p *v1.Probe) Timing {
	own, o := timingOf(p), &m.options
	if o.Timing == nil {
		return own
	}
	// A function that does not answer leaves the probe as the pod says (IN6).
	t, err := foreign.Quick(m.calls, foreign.Call{
		Kind: problem.Function, Name: "Probes.Timing", UID: pod.UID, Pod: problem.Of(pod.Namespace, pod.Name, pod.UID),
		About: pod, Object: container + " " + k.String(), Patience: problem.FunctionLimit,
	}, nil, func() (Timing, error) {
		t, ok := o.Timing(pod, container, k, own)
		if !ok {
			return own, nil
		}
		return t, nil
	})
	if err != nil || t == own {
		return own
	}
	t.InitialDelay = max(t.InitialDelay, 0)
	t.Period = max(t.Period, o.shortest(p))
	if t.Timeout <= 0 {
		t.Timeout = own.Timeout
	}
	t.Timeout = min(t.Timeout, maxTimeoutPeriods*t.Period)
	return t
}
