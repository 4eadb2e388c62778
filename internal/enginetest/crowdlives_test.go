package enginetest_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podwright/podwright/runtime/fake"
)

// The moments of a crowd's script.
const (
	crowdFills   = 40 * time.Second  // pods that fill the disk do so
	crowdLeaves  = 50 * time.Second  // some pods are removed
	crowdReturns = 60 * time.Second  // some bad pods return under their UID
	crowdFalls   = 100 * time.Second // good pods' probes fail
	crowdRises   = 130 * time.Second // and succeed again
	crowdJudged  = 250 * time.Second // statuses are compared with what runs
	crowdEnds    = 255 * time.Second // all good pods are removed
	crowdHeals   = 285 * time.Second // all trouble ends, all pods are removed
)

// crowdMember is one pod of a crowd.
type crowdMember struct {
	pod *v1.Pod
	// bad is its ailment; nil: it is a good pod.
	bad *ailment
	// It is desired from come until leave, and again from back; 0: it does not come back.
	come, leave, back time.Duration
	// job: its container ends for good.
	job bool
}

// desired reports whether the pod is desired at a moment.
func (m *crowdMember) desired(at time.Duration) bool {
	return at >= m.come && at < m.leave || m.back > 0 && at >= m.back && at < crowdHeals
}

// crowdMembers draws n pods of which k are bad. The good ones depend only on the seed, n and k.
func crowdMembers(c crowdCell) []*crowdMember {
	rng := rand.New(rand.NewPCG(c.seed, uint64(c.n)<<32|uint64(c.k)))
	members := make([]*crowdMember, 0, c.n)
	for i := range c.n - c.k {
		members = append(members, goodMember(rng, i))
	}
	kinds := c.ailments()
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for i := range c.k {
		members = append(members, badMember(kinds[i%len(kinds)], i))
	}
	rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return members
}

// probedPods is how many good pods have a probe: the first ones.
const probedPods = 20

// goodMember is a server that crashes twice, or a job. The first one stays from the
// beginning to the end.
func goodMember(rng *rand.Rand, i int) *crowdMember {
	p := newPod(fmt.Sprintf("good-%04d", i), "main", "flaky")
	m := &crowdMember{pod: p, leave: crowdEnds}
	withFarVolume(withScratch(p))
	come, stay, job, image := rng.IntN(4), rng.IntN(4), rng.IntN(5), rng.IntN(50)
	switch {
	case i == 0:
	case come == 0:
		m.come = 30 * time.Second
	case come == 1:
		m.come = 70 * time.Second
	case stay == 0:
		m.leave = crowdLeaves
	}
	if i > 0 && job == 0 {
		m.job = true
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		p.Spec.Containers = p.Spec.Containers[:1]
		p.Spec.Containers[0].Name = "job"
	}
	if i > 0 && image == 0 {
		p.Spec.Containers[0].Image = "own/" + p.Name + ":1"
	}
	if !m.job && i < probedPods {
		h := v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"ready"}}}
		if i%2 == 1 {
			h = v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}
		}
		probed(h)(p)
	}
	return m
}

// badMember has one ailment. Half of the bad pods are removed while they are ill, and
// half of those return.
func badMember(a ailment, i int) *crowdMember {
	p := newPod(fmt.Sprintf("bad-%04d", i))
	if a.spoil != nil {
		a.spoil(p)
	}
	if a.pull != nil {
		p.Spec.Containers[0].Image = "own/" + p.Name + ":1"
	}
	m := &crowdMember{pod: p, bad: &a, leave: crowdHeals}
	if i%3 == 2 {
		m.come = 30 * time.Second
	}
	if i%2 == 0 || a.fills {
		m.leave = crowdLeaves
		if i%4 == 0 {
			m.back = crowdReturns
		}
	}
	return m
}

// script is what the containers of the members do.
func (n *crowdNode) script(l fake.Launch) fake.Script {
	if a := n.of(l.PodUID); a != nil {
		return a.script
	}
	switch l.Container {
	case "job":
		return fake.Script{Exit: &fake.Exit{After: 12 * time.Second}}
	case "flaky":
		return fake.Script{Crashes: 2, Crash: fake.Exit{After: 15 * time.Second}}
	}
	return fake.Script{Exec: func(fake.Exec) fake.ExecResult {
		if n.probes() {
			return fake.ExecResult{}
		}
		return fake.ExecResult{Code: 1}
	}}
}

// crowdLife is the life of one good pod. Each time counts from the event that asked for the step;
// negative: the step did not happen.
type crowdLife struct {
	running   time.Duration   // from its arrival
	restarts  []time.Duration // of flaky: from each of its ends
	signalled time.Duration   // from its removal
	gone      time.Duration   // from its removal
	fell      time.Duration   // from the failure of its probe to the status
	rose      time.Duration   // and back
}

// life computes a pod's life from the calls about it, from what the sink heard, and from the times at which pods were gone.
func (m *crowdMember) life(begin time.Time, calls []fake.Call, told crowdTale, gone map[types.UID]time.Duration) crowdLife {
	l := crowdLife{running: -1, signalled: -1, gone: -1, fell: -1, rose: -1}
	if !told.running.IsZero() {
		l.running = told.running.Sub(begin) - m.come
	}
	if at, ok := gone[m.pod.UID]; ok {
		l.gone = at - m.leave
	}
	var up []time.Time
	for _, c := range calls {
		switch {
		case c.Method == fake.StartContainer && c.Container == "flaky" && c.Err == nil:
			up = append(up, c.End)
		case c.Method == fake.StopContainer && l.signalled < 0 && c.Container == "main":
			l.signalled = c.Start.Sub(begin) - m.leave
		}
	}
	for i := 1; i < len(up); i++ {
		l.restarts = append(l.restarts, up[i].Sub(up[i-1])-15*time.Second)
	}
	for _, t := range told.ready {
		switch at := t.at.Sub(begin); {
		case !t.ready && at >= crowdFalls && l.fell < 0:
			l.fell = at - crowdFalls
		case t.ready && at >= crowdRises && l.rose < 0:
			l.rose = at - crowdRises
		}
	}
	return l
}

// judge compares the life of a good pod with its life without the bad pods (IN2).
func (m *crowdMember) judge(got, want crowdLife) (problems []string) {
	bad := func(format string, args ...any) {
		problems = append(problems, m.pod.Name+": "+fmt.Sprintf(format, args...))
	}
	if got.running < 0 || got.running > want.running+5*time.Second {
		bad("Running after %v, without bad pods after %v", got.running, want.running)
	}
	if !m.job && (got.signalled < 0 || got.signalled > time.Second) {
		bad("signalled %v after its removal", got.signalled)
	}
	if got.gone < 0 || got.gone > want.gone+5*time.Second {
		bad("gone %v after its removal, without bad pods %v", got.gone, want.gone)
	}
	same := len(got.restarts) == len(want.restarts)
	for i := 0; same && i < len(want.restarts); i++ {
		same = (got.restarts[i] - want.restarts[i]).Abs() <= time.Second
	}
	if !same {
		bad("restarted after %v, without bad pods after %v", got.restarts, want.restarts)
	}
	if limit := probePeriod*time.Second + time.Second; m.probed() && (got.fell < 0 || got.fell > limit || got.rose < 0 || got.rose > limit) {
		bad("its probe failed and succeeded again, which its readiness told after %v and %v", got.fell, got.rose)
	}
	return problems
}

// probed reports whether the pod has a probe and is desired while probes fail.
func (m *crowdMember) probed() bool {
	return m.pod.Spec.Containers[0].ReadinessProbe != nil && m.desired(crowdRises)
}

// truth compares a good pod's status with what runs.
func (m *crowdMember) truth(p *v1.Pod, rt *fake.Runtime) error {
	want := v1.PodRunning
	if m.job {
		want = v1.PodSucceeded
	}
	switch {
	case p == nil:
		return fmt.Errorf("%s is unknown", m.pod.Name)
	case p.Status.Phase != want:
		return fmt.Errorf("%s is %s", m.pod.Name, p.Status.Phase)
	case podReady(&p.Status) == m.job:
		return fmt.Errorf("%s is ready: %v", m.pod.Name, podReady(&p.Status))
	}
	for _, c := range p.Status.ContainerStatuses {
		facts := rt.Facts(p.UID, c.Name)
		if runs := c.State.Running != nil; runs != (facts.Running == 1) || runs == m.job || int(c.RestartCount) != facts.Created-1 {
			return fmt.Errorf("%s says of %s: %+v, %d restarts; in the runtime %+v", p.Name, c.Name, c.State, c.RestartCount, facts)
		}
	}
	return nil
}
