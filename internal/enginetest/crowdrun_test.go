package enginetest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// crowd is one engine with its pods.
type crowd struct {
	*rig
	node    *crowdNode
	members []*crowdMember
	begin   time.Time
	// going are the removed good pods that may have left something; gone is when nothing was left
	// of them.
	going map[types.UID]bool
	gone  map[types.UID]time.Duration
	// flipped counts the changes of manifests that flip.
	flipped int
}

// newCrowd starts an engine, with the bad pods of the cell or without.
func newCrowd(t *testing.T, c crowdCell, withBad bool) *crowd {
	members, ill := crowdMembers(c), map[types.UID]*ailment{}
	if !withBad {
		members = slices.DeleteFunc(members, func(m *crowdMember) bool { return m.bad != nil })
	}
	for _, m := range members {
		if m.bad != nil {
			ill[m.pod.UID] = m.bad
		}
	}
	out := &crowd{members: members, going: map[types.UID]bool{}, gone: map[types.UID]time.Duration{}}
	out.node = newCrowdNode(t.TempDir(), ill)
	out.rig = newRig(t, out.node.rt, out.node.root, out.node.configure).start()
	return out
}

// run takes the crowd through its script and returns the lives of the good pods.
func (c *crowd) run() map[types.UID]crowdLife {
	c.begin = time.Now()
	for at := time.Duration(0); at < crowdHeals; at += time.Second {
		c.until(at)
		c.step(at)
		c.look(at)
	}
	c.heal()
	calls := map[types.UID][]fake.Call{}
	for _, call := range c.runtime.Calls(fake.Match{Func: func(call fake.Call) bool {
		return call.Method == fake.StartContainer || call.Method == fake.StopContainer
	}}) {
		calls[call.PodUID] = append(calls[call.PodUID], call)
	}
	lives := map[types.UID]crowdLife{}
	for _, m := range c.members {
		if m.bad == nil {
			lives[m.pod.UID] = m.life(c.begin, calls[m.pod.UID], c.node.taleOf(m.pod.UID), c.gone)
		}
	}
	return lives
}

func (c *crowd) until(at time.Duration) {
	if wait := at - time.Since(c.begin); wait > 0 {
		<-time.After(wait)
	}
	synctest.Wait()
}

// step does what the script says for a moment.
func (c *crowd) step(at time.Duration) {
	switch at {
	case crowdFills:
		c.fill()
	case crowdFalls, crowdRises:
		c.node.setProbes(at == crowdRises)
	case crowdJudged:
		c.explain()
		c.truths()
	}
	changed := false
	for _, m := range c.members {
		before := at > 0 && m.desired(at-time.Second)
		changed = changed || m.desired(at) != before
		if before && !m.desired(at) && m.bad == nil {
			c.going[m.pod.UID] = true
		}
	}
	if changed {
		c.deliver(at)
	}
	c.flip(at)
}

func (c *crowd) deliver(at time.Duration) {
	var wanted []*v1.Pod
	for _, m := range c.members {
		if m.desired(at) {
			wanted = append(wanted, m.pod)
		}
	}
	c.set(wanted...)
}

// flips bounds how many manifests a cell changes.
const flips = 300

// flip changes the manifests that flip, ten times in one second.
func (c *crowd) flip(at time.Duration) {
	var flipping []*v1.Pod
	for _, m := range c.members {
		if m.bad != nil && m.bad.flips && m.desired(at) {
			flipping = append(flipping, m.pod.DeepCopy())
		}
	}
	if len(flipping) == 0 || at < 5*time.Second || c.flipped > flips {
		return
	}
	c.flipped += 10 * len(flipping)
	for i := range 10 {
		c.until(at + time.Duration(i)*100*time.Millisecond)
		for _, p := range flipping {
			p.Labels = map[string]string{"flip": fmt.Sprint(i)}
			p.Spec.Containers[0].Image = fmt.Sprintf("app:%d", i%2+1)
		}
		if err := c.source.Apply(c.t.Context(), flipping); err != nil {
			c.t.Error(err)
		}
	}
}

// fill puts files into the folders of the pods that have many, or that fill the disk.
func (c *crowd) fill() {
	bad := 0
	for _, m := range c.members {
		if m.bad != nil {
			bad++
		}
	}
	for _, m := range c.members {
		if m.bad == nil || !m.desired(crowdFills) || m.bad.files == 0 && !m.bad.fills {
			continue
		}
		file := scratchFile(c.node.root, m.pod.UID)
		names := []string{file}
		for i := range m.bad.files / bad {
			names = append(names, fmt.Sprint(file, i))
		}
		for _, name := range names {
			if err := writeFile(name); err != nil {
				c.t.Fatal(err)
			}
		}
		if m.bad.fills {
			c.node.fills(m.pod.UID)
		}
	}
}

// look notes which removed good pods have nothing left.
func (c *crowd) look(at time.Duration) {
	if len(c.going) == 0 {
		return
	}
	left := c.remains()
	for uid := range c.going {
		if len(left[uid]) == 0 {
			c.gone[uid] = at
			delete(c.going, uid)
		}
	}
}

// remains returns what the runtime and the disk hold of each pod.
func (c *crowd) remains() map[types.UID][]string {
	left := map[types.UID][]string{}
	sandboxes, err := c.runtime.ListPodSandbox(c.t.Context(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, s := range sandboxes {
		uid := types.UID(s.GetMetadata().GetUid())
		left[uid] = append(left[uid], "sandbox "+s.GetId())
	}
	containers, err := c.runtime.ListContainers(c.t.Context(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, s := range containers {
		uid := types.UID(s.GetLabels()[runtime.LabelPodUID])
		left[uid] = append(left[uid], "container "+s.GetId())
	}
	for _, dir := range []string{"pods", "logs"} {
		entries, err := os.ReadDir(filepath.Join(c.root, dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			c.t.Fatal(err)
		}
		for _, e := range entries {
			uid := types.UID(e.Name()[strings.LastIndexByte(e.Name(), '_')+1:])
			left[uid] = append(left[uid], dir+"/"+e.Name())
		}
	}
	return left
}

// truths compares the statuses of the good pods with what runs.
func (c *crowd) truths() {
	known := map[types.UID]*v1.Pod{}
	for _, p := range c.engine.Pods() {
		known[p.UID] = &p
	}
	for _, m := range c.members {
		if m.bad != nil || !m.desired(crowdJudged) {
			continue
		}
		if err := m.truth(known[m.pod.UID], c.runtime); err != nil {
			c.t.Error(err)
		}
	}
}

// explain checks what Explain and Problems say about the pods.
func (c *crowd) explain() {
	listed := map[types.UID]bool{}
	for _, p := range c.engine.Problems() {
		listed[p.UID] = listed[p.UID] || !p.Since.IsZero() && p.Since.Before(time.Now().Add(-10*time.Second))
	}
	for _, m := range c.members {
		if m.bad == nil {
			if listed[m.pod.UID] {
				c.t.Errorf("%s is a problem", m.pod.Name)
			}
			continue
		}
		want, problem := m.bad.told, m.bad.listed
		if m.leave < crowdJudged && (m.back == 0 || m.bad.lingers != "") { // its first life has not ended
			want, problem = m.bad.lingers, m.bad.stuck
		}
		if m.leave < crowdJudged && m.back == 0 && m.bad.name != "preStop hangs" && c.runtime.Running(m.pod.UID, "main") > 0 &&
			len(c.runtime.Calls(fake.Match{Method: fake.StopContainer, PodUID: m.pod.UID})) == 0 {
			c.t.Errorf("%s (%s) was never told to stop", m.pod.Name, m.bad.name)
		}
		e, known := c.engine.Explain(m.pod.UID)
		text, err := json.Marshal(e)
		switch {
		case err != nil:
			c.t.Fatal(err)
		case !known && (want != "" || m.desired(crowdJudged)):
			c.t.Errorf("%s (%s) is unknown, want %q", m.pod.Name, m.bad.name, want)
		case !regexp.MustCompile(want).Match(text):
			c.t.Errorf("%s (%s), explained as %s, want %q", m.pod.Name, m.bad.name, text, want)
		case problem && !listed[m.pod.UID]:
			c.t.Errorf("%s (%s) is no problem; explained as %s", m.pod.Name, m.bad.name, text)
		}
	}
}

// heal ends all trouble, removes all pods, and waits until nothing is left.
func (c *crowd) heal() {
	c.until(crowdHeals)
	close(c.node.healed)
	// Calls that hang end with the runtime's daemon. Containers that ignore signals exit below.
	c.runtime.SetDown(true)
	c.runtime.SetDown(false)
	c.set()
	containers, err := c.runtime.ListContainers(c.t.Context(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, s := range containers {
		if s.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			if err := c.runtime.Exit(types.UID(s.GetLabels()[runtime.LabelPodUID]), s.GetMetadata().GetName(), fake.Exit{}); err != nil && !errors.Is(err, runtime.ErrNotFound) {
				c.t.Fatal(err)
			}
		}
	}
	c.within(10*time.Minute, "nothing to be left", func() error {
		<-time.After(time.Second)
		if left := c.remains(); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		if known := c.engine.Pods(); len(known) > 0 {
			return fmt.Errorf("%d pods are known, the first: %s", len(known), c.rig.explain(known[0].UID))
		}
		if names := c.node.disk.Names(); slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "uid-") }) {
			return fmt.Errorf("records %v", names)
		}
		return nil
	})
	if err := c.runtime.Doubled(); err != nil {
		c.t.Error(err)
	}
	c.stop()
}

// compare reports good pods that suffer.
func (c *crowd) compare(got, want map[types.UID]crowdLife) {
	var problems []string
	for _, m := range c.members {
		if m.bad == nil {
			problems = append(problems, m.judge(got[m.pod.UID], want[m.pod.UID])...)
		}
	}
	if len(problems) > 0 {
		c.t.Errorf("%d complaints, the first: %s", len(problems), strings.Join(problems[:min(len(problems), 10)], "\n"))
	}
}
