package actions_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/actions"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// model is a runtime that does what plans say, and complains.
type model struct {
	t      *rapid.T
	pod    *v1.Pod
	status *runtime.PodStatus
	now    time.Time
	serial int
	// ended has the app containers that must not run again.
	ended map[string]bool
	// strict also checks what only holds for a pod that began from nothing.
	strict bool
	trace  []string
	// ephemeral has the ephemeral containers that were started.
	ephemeral map[string]bool
	// probes and resizes are what the next plan is told.
	probes  map[runtime.ContainerID]actions.Probes
	resizes map[runtime.ContainerID]actions.Resize
}

// newModel returns a runtime that shows nothing.
func newModel(t *rapid.T) *model {
	return &model{
		t: t, pod: randomPod(t), status: &runtime.PodStatus{}, now: time.Unix(0, 0), ended: map[string]bool{},
		ephemeral: map[string]bool{}, resizes: map[runtime.ContainerID]actions.Resize{},
	}
}

// resized wants a container that was asked to be resized in place to run.
func (m *model) resized(name string) {
	c := m.status.Container(name)
	if c == nil || c.State != runtime.Running || m.resizes[c.ID] != actions.ResizeInPlace {
		m.fatal("7, step 9: %s is resized, which it did not ask for", name)
	}
	delete(m.resizes, c.ID)
}

func (m *model) fatal(format string, args ...any) {
	m.t.Fatalf("%s\ntrace: %q", fmt.Sprintf(format, args...), m.trace)
}

// next returns a later moment; times in the model are never equal.
func (m *model) next() time.Time {
	m.now = m.now.Add(time.Second)
	return m.now
}

// exit ends a running or unknown container.
func (m *model) exit(c *runtime.ContainerStatus, code int32) {
	c.State, c.ExitCode = runtime.Exited, code
	m.trace = append(m.trace, fmt.Sprint(c.Name, " exits ", code))
	if spec := m.app(c.Name); spec != nil && restartpolicy.OnExit(m.pod, spec, code) == restartpolicy.Stay {
		m.ended[c.Name] = true
	}
}

func (m *model) app(name string) *v1.Container {
	for i := range m.pod.Spec.Containers {
		if m.pod.Spec.Containers[i].Name == name {
			return &m.pod.Spec.Containers[i]
		}
	}
	return nil
}

// apply does what a plan says and reports whether anything changed.
func (m *model) apply(p actions.Plan) (changed bool) {
	m.trace = append(m.trace, "PLAN "+say(p, m.pod))
	if len(p.Reset) > 0 {
		for _, r := range p.Reset {
			m.remove(r.Record)
			delete(m.ended, r.Record.Name)
		}
		return true
	}
	if p.KillPod {
		changed = m.killAll() || p.CreateSandbox
	}
	for _, k := range p.Kill {
		m.exit(k.Record, 137)
		if k.Restart {
			delete(m.ended, k.Record.Name)
		}
		changed = true
	}
	if p.KillPod && !p.CreateSandbox {
		if len(p.StartApp)+len(p.StartInit)+len(p.StartEphemeral) > 0 {
			m.fatal("7, step 2: starts without a sandbox")
		}
		return changed
	}
	if p.CreateSandbox {
		m.newSandbox(p.Attempt)
	}
	for _, i := range p.StartEphemeral {
		c := (*v1.Container)(&m.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if m.ephemeral[c.Name] {
			m.fatal("6.3: ephemeral container %s is started again", c.Name)
		}
		m.ephemeral[c.Name] = true
		m.start(c)
		changed = true
	}
	for _, i := range p.StartInit {
		m.start(&m.pod.Spec.InitContainers[i])
		changed = true
	}
	for _, i := range p.ResizeInit {
		m.resized(m.pod.Spec.InitContainers[i].Name)
		changed = true
	}
	for _, i := range p.ResizeApp {
		m.resized(m.pod.Spec.Containers[i].Name)
		changed = true
	}
	for _, i := range p.StartApp {
		c := &m.pod.Spec.Containers[i]
		if m.ended[c.Name] {
			m.fatal("%s has ended for good and is started again", c.Name)
		}
		if m.strict {
			m.wantInitDone(c)
		}
		m.start(c)
		changed = true
	}
	return changed
}

func (m *model) killAll() (changed bool) {
	for _, c := range m.status.Containers {
		if c.State == runtime.Running || c.State == runtime.Unknown {
			// What was in an unknown state is started again (6.1), whatever
			// its policy: no record says that it ended.
			ended := m.ended[c.Name] || c.State == runtime.Running
			m.exit(c, 137)
			m.ended[c.Name] = m.ended[c.Name] && ended
			changed = true
		}
	}
	for _, s := range m.status.Sandboxes {
		changed = changed || s.State == runtime.Running
		s.State = runtime.Exited
	}
	return changed
}

func (m *model) newSandbox(attempt uint32) {
	for _, s := range m.status.Sandboxes {
		if s.Attempt == attempt {
			m.fatal("sandbox attempt %d is used twice", attempt)
		}
	}
	for i := range m.pod.Spec.InitContainers {
		m.status.Containers = slices.DeleteFunc(m.status.Containers, func(c *runtime.ContainerStatus) bool {
			return c.Name == m.pod.Spec.InitContainers[i].Name
		})
	}
	s := &runtime.SandboxStatus{
		ID: fmt.Sprint("sandbox", attempt), Attempt: attempt, State: runtime.Running, CreatedAt: m.next(), IP: "10.0.0.1", HasNetwork: true,
	}
	m.status.Sandboxes = slices.Insert(m.status.Sandboxes, 0, s)
}

func (m *model) remove(record *runtime.ContainerStatus) {
	m.status.Containers = slices.DeleteFunc(m.status.Containers, func(c *runtime.ContainerStatus) bool { return c == record })
}

func (m *model) start(c *v1.Container) {
	for _, other := range m.status.Containers {
		if other.Name == c.Name && (other.State == runtime.Running || other.State == runtime.Unknown) {
			m.fatal("two running instances of %s", c.Name)
		}
	}
	m.serial++
	m.status.Containers = slices.Insert(m.status.Containers, 0, &runtime.ContainerStatus{
		ID: runtime.ContainerID{ID: fmt.Sprint(m.serial)}, Name: c.Name, State: runtime.Running, CreatedAt: m.next(),
		Hash: meta.Hash(c), SandboxID: m.status.Sandboxes[0].ID,
	})
}

// wantInitDone checks that every regular init container has succeeded, and every
// sidecar has been started, in the present sandbox.
func (m *model) wantInitDone(app *v1.Container) {
	for i := range m.pod.Spec.InitContainers {
		c := &m.pod.Spec.InitContainers[i]
		done := slices.ContainsFunc(m.status.Containers, func(r *runtime.ContainerStatus) bool {
			return r.Name == c.Name && r.SandboxID == m.status.Sandboxes[0].ID &&
				(restartpolicy.IsSidecar(c) || (r.State == runtime.Exited && r.ExitCode == 0))
		})
		if !done {
			m.fatal("%s starts before init container %s is done", app.Name, c.Name)
		}
	}
}

func (m *model) compute() actions.Plan {
	return actions.Compute(actions.Input{Pod: m.pod, Status: m.status, Probes: m.probes, Resizes: m.resizes})
}

// disturb lets something happen at the runtime.
func (m *model) disturb() {
	if n := len(m.status.Containers); n > 0 {
		c := m.status.Containers[rapid.IntRange(0, n-1).Draw(m.t, "container")]
		switch rapid.IntRange(0, 5).Draw(m.t, "event") {
		case 0, 1, 2:
			if c.State == runtime.Running {
				m.exit(c, rapid.SampledFrom([]int32{0, 1, 9}).Draw(m.t, "code"))
			}
		case 3:
			if c.State == runtime.Running {
				c.State = runtime.Unknown
			}
		case 4:
			if c.State == runtime.Running {
				c.Hash++ // as after an upgrade of the image in the spec
			}
		}
	}
	m.probe()
	if len(m.status.Sandboxes) > 0 && rapid.IntRange(0, 6).Draw(m.t, "sandbox") == 0 {
		// A sandbox takes its containers with it.
		m.trace = append(m.trace, "sandbox dies")
		m.killAll()
	}
}

// probe lets probes and new resources say something about what runs, or has no
// probe at all.
func (m *model) probe() {
	m.probes = nil
	if rapid.IntRange(0, 2).Draw(m.t, "no probe runs") == 0 {
		return
	}
	m.probes = map[runtime.ContainerID]actions.Probes{}
	for _, c := range m.status.Containers {
		if c.State != runtime.Running {
			continue
		}
		if rapid.IntRange(0, 2).Draw(m.t, "result") > 0 {
			m.probes[c.ID] = actions.Probes{
				Startup:  proberesult.Result(rapid.IntRange(0, 2).Draw(m.t, "startup")),
				Liveness: proberesult.Result(rapid.IntRange(0, 2).Draw(m.t, "liveness")),
			}
		}
		if rapid.IntRange(0, 4).Draw(m.t, "resize") == 0 {
			m.resizes[c.ID] = actions.Resize(rapid.IntRange(1, 2).Draw(m.t, "how"))
		}
	}
}

// calm lets everything that ends by itself succeed.
func (m *model) calm() {
	// Probes succeed from now on, also those of what is yet to start.
	m.probes = nil
	for _, c := range m.status.Containers {
		if c.State != runtime.Running {
			continue
		}
		i := slices.IndexFunc(m.pod.Spec.InitContainers, func(i v1.Container) bool { return i.Name == c.Name })
		regular := i >= 0 && !restartpolicy.IsSidecar(&m.pod.Spec.InitContainers[i])
		app := m.app(c.Name)
		if regular || (app != nil && restartpolicy.Effective(m.pod, app) != v1.RestartPolicyAlways) {
			m.exit(c, 0)
		}
	}
}

// converge requires that the plans come to an end.
func (m *model) converge() {
	for range 60 {
		m.calm()
		if p := m.compute(); p.Empty() || !m.apply(p) {
			return
		}
	}
	m.fatal("the plans do not converge")
}

// randomPod draws a pod with every kind of policy and rule.
func randomPod(t *rapid.T) *v1.Pod {
	p := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: rapid.SampledFrom([]v1.RestartPolicy{always, onFailure, never}).Draw(t, "policy")}}
	for i := range rapid.IntRange(0, 3).Draw(t, "inits") {
		c := v1.Container{Name: fmt.Sprint("i", i), Image: "x"}
		if rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "apps") {
		c := v1.Container{Name: fmt.Sprint("a", i), Image: "x"}
		if rapid.IntRange(0, 3).Draw(t, "own") == 0 {
			c.RestartPolicy = ptr.To(rapid.SampledFrom([]v1.ContainerRestartPolicy{
				v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever,
			}).Draw(t, "own policy"))
			if rapid.Bool().Draw(t, "rule") {
				c.RestartPolicyRules = []v1.ContainerRestartRule{{
					Action: rapid.SampledFrom([]v1.ContainerRestartRuleAction{
						v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers,
					}).Draw(t, "action"),
					ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
						Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{9},
					},
				}}
			}
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if rapid.IntRange(0, 2).Draw(t, "startup probe") == 0 {
				list[i].StartupProbe = &v1.Probe{}
			}
			if rapid.IntRange(0, 2).Draw(t, "liveness probe") == 0 {
				list[i].LivenessProbe = &v1.Probe{}
			}
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "ephemeral") == 0 {
		p.Spec.EphemeralContainers = []v1.EphemeralContainer{
			{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "x"}},
		}
	}
	return p
}

// A pod that lives through any sequence of events: never runs what has ended,
// never an app before init is done, never two of one name, and comes to rest.
func TestExploreLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		m.strict = true
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			m.apply(m.compute())
			m.disturb()
		}
		m.converge()
	})
}

// Any state a runtime can show, however it came about, leads to rest without
// running two of one name or what has ended.
func TestExploreStates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for i := range rapid.IntRange(0, 3).Draw(t, "sandboxes") {
			m.status.Sandboxes = slices.Insert(m.status.Sandboxes, 0, &runtime.SandboxStatus{
				ID: fmt.Sprint("old", i), Attempt: uint32(i), CreatedAt: m.next(), HasNetwork: true,
				State:       rapid.SampledFrom([]runtime.State{runtime.Running, runtime.Exited, runtime.Unknown}).Draw(t, "sandbox state"),
				IP:          rapid.SampledFrom([]string{"", "10.0.0.1"}).Draw(t, "ip"),
				HostNetwork: rapid.Bool().Draw(t, "host"),
			})
		}
		var names []string
		for _, list := range [][]v1.Container{m.pod.Spec.InitContainers, m.pod.Spec.Containers} {
			for i := range list {
				names = append(names, list[i].Name)
			}
		}
		alive := map[string]bool{}
		for range rapid.IntRange(0, 8).Draw(t, "records") {
			m.serial++
			c := &runtime.ContainerStatus{
				ID: runtime.ContainerID{ID: fmt.Sprint(m.serial)}, CreatedAt: m.next(),
				Name: rapid.SampledFrom(append(names, "stranger")).Draw(t, "name"),
				State: rapid.SampledFrom([]runtime.State{
					runtime.Unknown, runtime.Created, runtime.Running, runtime.Exited,
				}).Draw(t, "state"),
				ExitCode: rapid.SampledFrom([]int32{0, 1, 9}).Draw(t, "code"),
				Reason:   rapid.SampledFrom([]string{"", "OOMKilled"}).Draw(t, "reason"),
			}
			if alive[c.Name] {
				// What runs is the newest of its name: nothing starts a
				// second one.
				continue
			}
			alive[c.Name] = c.State == runtime.Running || c.State == runtime.Unknown
			m.status.Containers = slices.Insert(m.status.Containers, 0, c)
		}
		for i := range m.pod.Spec.Containers {
			c := &m.pod.Spec.Containers[i]
			if r := m.status.Container(c.Name); r != nil && r.State == runtime.Exited {
				m.ended[c.Name] = restartpolicy.OnExit(m.pod, c, r.ExitCode) == restartpolicy.Stay
			}
		}
		m.converge()
	})
}
