package pods

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/crashloop"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// BackOffPolicy describes a delay that doubles (or grows by Factor) with every
// failure. A zero field takes the default of the field it is used in.
type BackOffPolicy struct {
	// Initial is the first delay.
	Initial time.Duration
	// Factor multiplies the delay after every further failure; at least 1.
	Factor float64
	// Max bounds the delay. An Initial above Max is lowered to Max.
	Max time.Duration
	// Reset is how long a container must run, or an image must not fail, for the
	// delays to start again at Initial. Default 600 s, whatever Max is.
	Reset time.Duration
}

// standardBackOff is the policy of spec/runtime.md 9.3 and 17.1.
func standardBackOff() BackOffPolicy {
	return BackOffPolicy{Initial: 10 * time.Second, Factor: 2, Max: 300 * time.Second, Reset: 600 * time.Second}
}

// complete fills zero fields from defaults.
func (p *BackOffPolicy) complete(field string, defaults BackOffPolicy) error {
	var problems []error
	for name, d := range map[string]time.Duration{"Initial": p.Initial, "Max": p.Max, "Reset": p.Reset} {
		if d < 0 {
			problems = append(problems, fmt.Errorf("%s.%s %s is negative", field, name, d))
		}
	}
	if p.Factor != 0 && p.Factor < 1 {
		problems = append(problems, fmt.Errorf("%s.Factor %v is below 1", field, p.Factor))
	}
	if p.Initial == 0 {
		p.Initial = defaults.Initial
	}
	if p.Factor == 0 {
		p.Factor = defaults.Factor
	}
	if p.Max == 0 {
		p.Max = defaults.Max
	}
	if p.Reset == 0 {
		p.Reset = defaults.Reset
	}
	p.Initial = min(p.Initial, p.Max)
	return errors.Join(problems...)
}

// CrashLoopByExit has the delays for each way in which a container can end. A zero
// field takes the value of Options.CrashLoopBackOff. Restarts in a row are counted
// over all of them together.
type CrashLoopByExit struct {
	// Success is for exit code 0.
	Success BackOffPolicy
	// OOMKilled is for containers that the kernel killed for lack of memory, whatever
	// the code.
	OOMKilled BackOffPolicy
	// StartError is for containers that could not be started.
	StartError BackOffPolicy
	// Failure is for all other ends.
	Failure BackOffPolicy
}

// complete fills and checks the policies.
func (c *CrashLoopByExit) complete(defaults BackOffPolicy) error {
	return errors.Join(
		c.Success.complete("CrashLoopByExit.Success", defaults), c.OOMKilled.complete("CrashLoopByExit.OOMKilled", defaults),
		c.StartError.complete("CrashLoopByExit.StartError", defaults), c.Failure.complete("CrashLoopByExit.Failure", defaults),
	)
}

// policies is what the table of delays takes.
func (c *CrashLoopByExit) policies() (out crashloop.Policies) {
	out[crashloop.Success], out[crashloop.OOMKilled] = crashloop.Policy(c.Success), crashloop.Policy(c.OOMKilled)
	out[crashloop.StartError], out[crashloop.Failure] = crashloop.Policy(c.StartError), crashloop.Policy(c.Failure)
	return out
}

// exitClass returns how an exited container ended.
func exitClass(c *runtime.ContainerStatus) crashloop.Class {
	switch {
	case c.Reason == restartpolicy.OOMKilled:
		return crashloop.OOMKilled
	case c.StartedAt.IsZero() || c.Reason == restartpolicy.StartError:
		return crashloop.StartError
	case c.ExitCode == 0:
		return crashloop.Success
	}
	return crashloop.Failure
}

// checkBackOff decides whether a container that has exited must wait before it
// starts again (spec/runtime.md 17). The delays are those of package crashloop.
func (st *starting) checkBackOff() *startFailure {
	m := st.m
	if st.restartAsked() {
		return nil
	}
	now := m.options.Clock.Now()
	var until time.Time
	var delay time.Duration
	var exit crashloop.Exit
	record := newestExited(st.status, st.spec.Name)
	if record != nil {
		exit = st.before(record, now)
	}
	m.mu.Lock()
	if hold := m.holdOf(st.pod.UID, now); st.kind != meta.Ephemeral && now.Before(hold.until) {
		until, delay = hold.until, hold.delay
	} else if record != nil {
		until, delay = m.crashes.Check(crashKey(st.pod, st.spec), exit, now)
	}
	m.mu.Unlock()
	if until.IsZero() {
		return nil
	}
	message := fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)",
		delay.Round(time.Second), st.spec.Name, st.pod.Name, st.pod.Namespace, st.pod.UID)
	st.event(v1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)",
		st.spec.Name, st.pod.Name, st.pod.Namespace, st.pod.UID)
	return &startFailure{
		name: st.spec.Name, reason: reasonCrashLoopBackOff, message: message, retryAt: until, held: true,
	}
}

// before describes what the start follows: the newest exit, and the run after it that this sync has stopped.
func (st *starting) before(record *runtime.ContainerStatus, now time.Time) crashloop.Exit {
	exit := st.m.crashExit(st.pod, st.spec, record)
	switch run := st.status.Container(st.spec.Name); {
	case run.State == runtime.Running && !run.StartedAt.IsZero():
		exit.Later, exit.Lasted = run.ID.ID, now.Sub(run.StartedAt)
	case run.State == runtime.Running, run.State == runtime.Unknown: // it may have ended long ago
		exit.Later = run.ID.ID
	}
	return exit
}

// hold is the delay of a pod that was reset, and its end.
type hold struct {
	until time.Time
	delay time.Duration
}

// holdAfter delays a pod after a reset as long as the container that caused it
// (spec/runtime.md 17.7): the reset removes the record that the usual delay needs.
func (m *Manager) holdAfter(pod *v1.Pod, c *v1.Container, record *runtime.ContainerStatus) {
	exit := m.crashExit(pod, c, record)
	m.mu.Lock()
	defer m.mu.Unlock()
	until, delay := m.crashes.Hold(crashKey(pod, c), exit, m.options.Clock.Now())
	if until.After(m.holds[pod.UID].until) {
		m.holds[pod.UID] = hold{until, delay}
	}
}

// holdOf returns until when a pod that was reset must not start containers, zero if it may. The
// lock must be held.
func (m *Manager) holdOf(uid types.UID, now time.Time) hold {
	h, held := m.holds[uid]
	if held {
		h.until = m.crashes.Bound(h.until, now)
		m.holds[uid] = h
	}
	return h
}

// crashKey names the container's delays: with another image or other resources they
// start over (spec/runtime.md 17.2).
func crashKey(pod *v1.Pod, c *v1.Container) crashloop.Key {
	resources, err := json.Marshal(c.Resources)
	if err != nil {
		resources = nil
	}
	return crashloop.Key{Pod: pod.UID, Container: c.Name, Definition: c.Image + "\n" + string(resources)}
}

// crashExit describes an exit. Restarts that were asked for do not count as crashes.
func (m *Manager) crashExit(pod *v1.Pod, c *v1.Container, record *runtime.ContainerStatus) crashloop.Exit {
	return crashloop.Exit{
		ID: record.ID.ID, StartedAt: record.StartedAt, FinishedAt: record.FinishedAt,
		RestartCount: record.RestartCount - m.asked(pod.UID).Count(c.Name), Class: exitClass(record), SameDefinition: !meta.Changed(c, record),
	}
}

func newestExited(status *runtime.PodStatus, name string) *runtime.ContainerStatus {
	if status == nil {
		return nil
	}
	for _, c := range status.Containers {
		if c.Name == name && c.State == runtime.Exited {
			return c
		}
	}
	return nil
}
