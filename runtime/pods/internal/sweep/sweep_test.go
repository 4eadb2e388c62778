package sweep_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/sweep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Unix(1_000_000, 0)

// pod makes a pod in words: "s0:dead s1:ready c=exited@90 d=running@5"; the
// number is the age in seconds. Sandboxes are given oldest first. A container
// is in the newest sandbox unless it says "c/s0=…".
func pod(uid, words string) *runtime.Pod {
	p := &runtime.Pod{UID: types.UID(uid)}
	for word := range strings.FieldsSeq(words) {
		name, rest, ok := strings.Cut(word, "=")
		if !ok {
			name, state, _ := strings.Cut(word, ":")
			s := &runtime.Sandbox{ID: uid + name, State: runtime.Exited}
			if state == "ready" {
				s.State = runtime.Running
			}
			p.Sandboxes = slices.Insert(p.Sandboxes, 0, s)
			continue
		}
		state, text, _ := strings.Cut(rest, "@")
		var age int
		fmt.Sscan(text, &age)
		c := &runtime.Container{CreatedAt: now.Add(-time.Duration(age) * time.Second)}
		c.Name, c.SandboxID, _ = strings.Cut(name, "/")
		c.SandboxID = uid + c.SandboxID
		if c.SandboxID == uid && len(p.Sandboxes) > 0 {
			c.SandboxID = p.Sandboxes[0].ID
		}
		c.ID.ID = fmt.Sprint(uid, c.Name, age)
		switch state {
		case "running":
			c.State = runtime.Running
		case "exited":
			c.State = runtime.Exited
		case "created":
			c.State = runtime.Created
		}
		p.Containers = append(p.Containers, c)
	}
	slices.SortFunc(p.Containers, func(a, b *runtime.Container) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return p
}

func noneGone(types.UID) bool { return false }

func goneIs(uid types.UID) func(types.UID) bool { return func(u types.UID) bool { return u == uid } }

// neverRan says which containers never ran, although they look exited.
func neverRan(ids ...string) func(types.UID, runtime.ContainerID) bool {
	return func(_ types.UID, id runtime.ContainerID) bool { return slices.Contains(ids, id.ID) }
}

func TestNewestDeadContainersAreKept(t *testing.T) {
	ten := make([]*runtime.Pod, 0, 10)
	for i := range 10 {
		ten = append(ten, pod(fmt.Sprint("p", i, "-"), fmt.Sprintf("c=exited@%d c=exited@%d", 100+i, 200+i)))
	}
	five := ten[:5]
	for _, tc := range []struct {
		rule   string
		pods   []*runtime.Pod
		policy sweep.Policy
		want   string
	}{
		{"CG9 the newest stays", []*runtime.Pod{pod("u", "c=exited@10 c=exited@20 c=exited@30 d=exited@15")}, sweep.Policy{MaxPerContainer: 1, MaxContainers: -1}, "uc30 uc20"},
		{"CG3 a running one is no candidate", []*runtime.Pod{pod("u", "c=running@10 c=exited@20 c=exited@30")}, sweep.Policy{MaxPerContainer: 1, MaxContainers: -1}, "uc30"},
		{"CG4a gone loses all", []*runtime.Pod{pod("u", "c=exited@10 c=exited@20 d=unknown@30"), pod("v", "c=exited@5")}, sweep.Policy{MaxPerContainer: 1, MaxContainers: -1, Gone: goneIs("u")}, "ud30 uc20 uc10"},
		{"CG4a but not what runs", []*runtime.Pod{pod("u", "c=running@10 d=exited@20")}, sweep.Policy{MaxPerContainer: 1, MaxContainers: -1, Gone: goneIs("u")}, "ud20"},
		{"CG4b no limit", []*runtime.Pod{pod("u", "c=exited@10 c=exited@20")}, sweep.Policy{MaxPerContainer: -1, MaxContainers: -1}, ""},
		{"CG1 min age", []*runtime.Pod{pod("u", "c=exited@10 c=exited@20 c=exited@3700 c=exited@3800")}, sweep.Policy{MinAge: time.Hour, MaxPerContainer: 1, MaxContainers: -1}, "uc3800"},
		{"CG1 no min age: whatever the clock says", []*runtime.Pod{pod("u", "c=exited@-20 c=exited@-10")}, sweep.Policy{MaxPerContainer: 1, MaxContainers: -1}, "uc-10"},
		{"CG2 edge 21: created just now", []*runtime.Pod{pod("u", "c=created@59 d=created@61")}, sweep.Policy{MaxPerContainer: 0, MaxContainers: -1}, "ud61"},
		{"CG9 one that was only created tells nothing", []*runtime.Pod{pod("u", "c=created@61 c=exited@120 c=exited@180")}, sweep.Policy{MaxPerContainer: 1, MaxContainers: -1}, "uc180"},
		{"CG9 whose start was aborted", []*runtime.Pod{pod("u", "c=exited@11 c=exited@12 c=exited@120 c=exited@180")}, sweep.Policy{MaxPerContainer: 1, MaxContainers: -1, NeverRan: neverRan("uc11", "uc12")}, "uc180 uc12"},
		{"CG9 only created, twice", []*runtime.Pod{pod("u", "c=created@61 c=created@62")}, sweep.Policy{MaxPerContainer: 1, MaxContainers: -1}, "uc62"},
		{"CG8 total 2: the run stays", []*runtime.Pod{pod("u", "c=created@61 c=exited@120 c=exited@180")}, sweep.Policy{MaxPerContainer: -1, MaxContainers: 2}, "uc180"},
		{"CG4b none", []*runtime.Pod{pod("u", "c=created@61 c=exited@120")}, sweep.Policy{MaxPerContainer: 0, MaxContainers: -1}, "uc120 uc61"},
		{"CG8 total 0", []*runtime.Pod{pod("u", "c=exited@10 d=exited@20")}, sweep.Policy{MaxPerContainer: -1, MaxContainers: 0}, "ud20 uc10"},
		{"CG8 total 4 of 6", []*runtime.Pod{pod("u", "c=exited@1 c=exited@2 c=exited@3 c=exited@4 c=exited@5 c=exited@6")}, sweep.Policy{MaxPerContainer: -1, MaxContainers: 4}, "uc6 uc5"},
		{"CG8 total 5, 5 pods of 2", five, sweep.Policy{MaxPerContainer: -1, MaxContainers: 5}, "p4-c204 p3-c203 p2-c202 p1-c201 p0-c200"},
		{"CG8 total 6, 10 units", ten, sweep.Policy{MaxPerContainer: 1, MaxContainers: 6}, "p9-c209 p8-c208 p7-c207 p6-c206 p5-c205 p4-c204 p3-c203 p2-c202 p1-c201 p0-c200 p9-c109 p8-c108 p7-c107 p6-c106"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if tc.policy.Gone == nil {
				tc.policy.Gone = noneGone
			}
			var got []string
			for _, c := range sweep.Containers(tc.pods, tc.policy, now) {
				if c.Kept.IsZero() == (c.Reason == "") {
					t.Errorf("%s: goes %q, stays %q", c.ID.ID, c.Reason, c.Kept)
				}
				if c.Kept.IsZero() {
					got = append(got, c.ID.ID)
				}
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("\n got %s\nwant %s", s, tc.want)
			}
		})
	}
}

// CG4, runtime.md 1.3: a run that looks older because the clock was set back goes after the runs before it.
func TestEarlierRunsGoFirstWhateverTheClockSaid(t *testing.T) {
	run := func(attempt uint32, age time.Duration) *runtime.Container {
		c := &runtime.Container{Name: "c", State: runtime.Exited, Attempt: attempt, CreatedAt: now.Add(-age)}
		c.ID.ID = fmt.Sprint("c", attempt)
		return c
	}
	p := &runtime.Pod{UID: "u", Containers: []*runtime.Container{run(3, 3590*time.Second), run(2, time.Hour), run(1, 10*time.Second), run(0, 20*time.Second)}}
	other := pod("v", "d=exited@600")
	var got []string
	for _, c := range sweep.Containers([]*runtime.Pod{p, other}, sweep.Policy{MaxContainers: -1, Gone: func(types.UID) bool { return true }}, now) {
		got = append(got, c.ID.ID)
	}
	if s := strings.Join(got, " "); s != "c0 c1 c2 c3 vd600" {
		t.Errorf("got %s", s)
	}
}

func TestNewestSandboxOfALivePodIsKept(t *testing.T) {
	for _, tc := range []struct {
		rule    string
		pod     *runtime.Pod
		gone    bool
		removed []string
		want    string
	}{
		{"SB2 older inactive", pod("u", "s0:dead s1:dead s2:ready c=running@1"), false, nil, "us1 us0"},
		{"SB3 the newest stays, even dead", pod("u", "s0:dead s1:dead"), false, nil, "us0"},
		{"SB3 edge 23: old one with containers", pod("u", "s0:dead s1:dead c/s0=exited@5"), false, nil, ""},
		{"SB5 its containers were removed just now", pod("u", "s0:dead s1:dead c/s0=exited@5"), false, []string{"uc5"}, "us0"},
		{"SB2 gone: all inactive", pod("u", "s0:dead s1:dead c/s0=exited@5"), true, nil, "us1"},
		{"SB1 ready is active", pod("u", "s0:ready s1:ready"), true, nil, ""},
		{"none", pod("u", "c=exited@5"), true, nil, ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			removed := map[string]bool{}
			for _, id := range tc.removed {
				removed[id] = true
			}
			var got []string
			for _, s := range sweep.Sandboxes([]*runtime.Pod{tc.pod}, func(types.UID) bool { return tc.gone }, removed) {
				if s.Kept.IsZero() {
					got = append(got, s.ID)
				}
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("got %q, want %q", s, tc.want)
			}
		})
	}
}

// TestEverythingKeptHasItsRule is DR3: everything that is dead and stays has the rule that keeps it.
func TestEverythingKeptHasItsRule(t *testing.T) {
	p := pod("u", "s0:dead s1:dead s2:ready a/s0=exited@50 a=exited@60 b=created@5 c=exited@30")
	policy := sweep.Policy{MaxPerContainer: 2, MaxContainers: -1, Gone: noneGone, MinAge: 40 * time.Second}
	got := map[string]string{}
	for _, c := range sweep.Containers([]*runtime.Pod{p}, policy, now) {
		got[c.ID.ID] = string(c.Kept.Rule)
	}
	for _, s := range sweep.Sandboxes([]*runtime.Pod{p}, noneGone, nil) {
		got[s.ID] = string(s.Kept.Rule)
	}
	want := map[string]string{"ua50": "ND3", "ua60": "CG1", "ub5": "CG1", "uc30": "CG1", "us0": "ND4", "us1": "", "us2": "HI6"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// HI6, CG9, ID2: whatever there is, nothing that runs is chosen, the newest of a
// live pod stays, and a second choice after the first is empty.
func TestContainersRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pods []*runtime.Pod
		age := 100
		for i := range rapid.IntRange(0, 4).Draw(t, "pods") {
			var words []string
			for range rapid.IntRange(0, 8).Draw(t, "containers") {
				age++
				words = append(words, fmt.Sprintf("%s=%s@%d", rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"),
					rapid.SampledFrom([]string{"running", "exited", "created", "unknown"}).Draw(t, "state"), age))
			}
			pods = append(pods, pod(fmt.Sprint("u", i), strings.Join(words, " ")))
		}
		policy := sweep.Policy{
			MaxPerContainer: rapid.IntRange(-1, 3).Draw(t, "per"), MaxContainers: rapid.IntRange(-1, 6).Draw(t, "total"),
			Gone: goneIs("u0"),
		}
		gone := map[string]bool{}
		for _, c := range sweep.Containers(pods, policy, now) {
			if !c.Kept.IsZero() {
				continue
			}
			if c.State == runtime.Running {
				t.Fatalf("HI6: %s runs", c.ID.ID)
			}
			if gone[c.ID.ID] {
				t.Fatalf("%s is chosen twice", c.ID.ID)
			}
			gone[c.ID.ID] = true
		}
		for _, p := range pods {
			seen := map[string]bool{}
			for _, c := range p.Containers {
				if c.State == runtime.Running || seen[c.Name] {
					continue
				}
				seen[c.Name] = true
				if gone[c.ID.ID] && p.UID != "u0" && policy.MaxPerContainer != 0 && policy.MaxContainers < 0 {
					t.Fatalf("CG9: the newest %s of %s is chosen", c.Name, p.UID)
				}
			}
			p.Containers = slices.DeleteFunc(p.Containers, func(c *runtime.Container) bool { return gone[c.ID.ID] })
		}
		for _, c := range sweep.Containers(pods, policy, now) {
			if c.Kept.IsZero() {
				t.Fatalf("ID2: a second choice has %s too", c.ID.ID)
			}
		}
	})
}

func ExampleContainers() {
	policy := sweep.Policy{MaxPerContainer: 1, MaxContainers: -1, Gone: noneGone}
	for _, c := range sweep.Containers([]*runtime.Pod{pod("web-", "app=running@1 app=exited@20 app=exited@30")}, policy, now) {
		fmt.Println(c.ID.ID, c.Reason+c.Kept.String())
	}
	// Output:
	// web-app30 more of its name are kept than allowed
	// web-app20 ND3: the newest of its name tells how it ended
}
