package enginetest_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
)

var (
	livesSeed  = flag.Uint64("lives.seed", 0, "the only schedule of TestRandomLivesFitTheNode; 0: -lives.seeds of them")
	livesSeeds = flag.Uint64("lives.seeds", 6, "how many schedules TestRandomLivesFitTheNode has")
)

// TestRandomLivesFitTheNode: AD5, AD1, 21.1. Pods come, go and come again with other requests under their old UIDs, also while
// they stop, and agents are stopped and killed meanwhile. The newest lives that run never have more CPUs than the node, no pod has two
// containers at once, and in the end each pod runs or has no room.
func TestRandomLivesFitTheNode(t *testing.T) {
	first, last := uint64(1), *livesSeeds
	if *livesSeed != 0 {
		first, last = *livesSeed, *livesSeed
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newLivesModel(t, seed).run() })
		})
	}
}

const livesCPUs = 4

// livesModel is a node with four CPUs and some pods that may be wanted on it. Each life has a container of another name.
type livesModel struct {
	t       *testing.T
	rng     *rand.Rand
	host    *host
	rig     *rig
	names   []string
	desired map[string]int // CPUs
	lives   map[string]int
}

func newLivesModel(t *testing.T, seed uint64) *livesModel {
	m := &livesModel{t: t, rng: rand.New(rand.NewPCG(seed, 31)), desired: map[string]int{}, lives: map[string]int{}, names: []string{"a", "b", "c", "d"}}
	rt := fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
		slow := time.Duration(len(l.Container)*int(l.PodName[0])%7) * 3 * time.Second // or until it is killed
		return fake.Script{OnTERM: fake.Exit{After: slow}}
	}})
	m.host = newHost(t, rt)
	m.rig = m.host.agent(roomFor(fmt.Sprint(livesCPUs)))
	return m
}

func (m *livesModel) run() {
	for range 40 {
		m.step()
		m.rest(time.Duration(m.rng.IntN(100)) * 100 * time.Millisecond)
	}
	m.rest(20 * time.Minute)
	m.check()
}

// step is one change. No pod changes while there is no agent, which would be the same life.
func (m *livesModel) step() {
	name := m.names[m.rng.IntN(len(m.names))]
	switch n := m.rng.IntN(12); {
	case n == 0:
		m.rig.stop()
		m.rig = m.host.agent(roomFor(fmt.Sprint(livesCPUs)))
	case n == 1:
		m.host.kill(m.rig)
		m.rig = m.host.agent(roomFor(fmt.Sprint(livesCPUs)))
	case m.desired[name] == 0:
		m.desired[name] = 1 + m.rng.IntN(3)
		m.lives[name]++
	default:
		delete(m.desired, name)
	}
	var pods []*v1.Pod
	for _, name := range m.names {
		if cpus := m.desired[name]; cpus > 0 {
			p := sized(newPod(name, m.container(m.lives[name])), fmt.Sprint(cpus), "64Mi")
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](15)
			pods = append(pods, p)
		}
	}
	m.rig.set(pods...)
	m.rest(time.Second)
}

// rest lets time pass, and looks at what runs meanwhile.
func (m *livesModel) rest(d time.Duration) {
	m.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		<-time.After(min(time.Until(end), max(d/100, 200*time.Millisecond)))
		used := 0
		for _, name := range m.names {
			n, newest := m.running(name)
			if n > 1 {
				m.t.Fatalf("%d containers of %s run: %s", n, name, m.describe())
			}
			if newest { // what is removed makes room at once (AD1), even if it is wanted again
				used += m.desired[name]
			}
		}
		if used > livesCPUs {
			m.t.Fatalf("what runs has %d CPUs: %s", used, m.describe())
		}
	}
}

// container is the name of the container in a life of a pod.
func (m *livesModel) container(life int) string { return strings.Repeat("x", life) }

// running returns how many containers of a pod run, and whether that of its newest life does.
func (m *livesModel) running(name string) (n int, newest bool) {
	for life := 1; life <= m.lives[name]; life++ {
		r := m.host.rt.Running(newPod(name).UID, m.container(life))
		n, newest = n+r, r > 0
	}
	return n, newest
}

// describe says what is wanted, and what runs.
func (m *livesModel) describe() string {
	var out []string
	for _, name := range m.names {
		n, newest := m.running(name)
		out = append(out, fmt.Sprintf("%s wants %d, runs %d, newest %v", name, m.desired[name], n, newest))
	}
	return strings.Join(out, "; ")
}

// check looks at what runs once nothing has changed for long.
func (m *livesModel) check() {
	used := 0
	for _, name := range m.names {
		n, newest := m.running(name)
		if n > 0 && !newest || n > 0 && m.desired[name] == 0 {
			m.t.Errorf("%s runs, but should not: %s", name, m.describe())
		}
		used += m.desired[name] * n
	}
	for _, name := range m.names {
		uid := newPod(name).UID
		if n, _ := m.running(name); m.desired[name] == 0 || n == 1 {
			continue
		}
		if got := m.rig.pod(uid); used+m.desired[name] <= livesCPUs || got == nil || got.Status.Reason != "OutOfcpu" {
			m.t.Errorf("%s does not run: %s; %s", name, m.describe(), m.rig.explain(uid))
		}
	}
}
