package cleanup

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// busy is a node with one candidate of each kind, and one of each that stays.
func busy(t *testing.T) *outback {
	o := newOutback(t, func(options *Options) {
		options.Rule = func(err error) Rule {
			if strings.Contains(err.Error(), "left-over") {
				return "OD9"
			}
			return ""
		}
	})
	o.want(newPod("live"), newPod("lost"))
	o.workers["live"] = Worker{HasConfig: true}
	o.runs["orphan"] = true
	o.podDirs, o.logDirs = set("live", "gone"), set("gone")
	o.cgroups, o.volumes = set("gone", "full"), set("full")
	o.ranges, o.content = set("gone", "live"), set("live")
	o.mirrors = []types.NamespacedName{{Namespace: "ns", Name: "m"}}
	return o
}

// TestDryRun is HK3, DR1, DR2, DR3: a plan touches nothing, names what would be done and
// the rule behind everything that stays, and a pass then does exactly that.
func TestDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := busy(t)
		plan, err := o.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		o.did(t, "nothing was touched")
		if o.synced {
			t.Error("SyncKnownPods was called")
		}
		want := []string{
			"release user IDs gone", "release user IDs live not ND2", "remove pod folder gone", "remove pod folder live not ND2",
			"delete mirror pod ", "restart lost", "kill orphan orphan", "remove cgroup full not ND6", "remove cgroup gone",
			"remove logs gone not ND2", "remove container live not ND3",
		}
		if diff := cmp.Diff(want, show(plan)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		o.pass(t, "the pass", "restart lost", "kill orphan", "delete mirror ns/m", "remove logs gone", "remove folder gone",
			"remove user IDs gone", "destroy gone", "reduce full")
	})
}

// TestDryRunTwice is edge 37, ID3, DR4: two plans of one state are equal to the letter,
// as a table and as JSON.
func TestDryRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := busy(t)
		var texts [2]string
		for i := range texts {
			plan, err := o.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var table strings.Builder
			if err := plan.WriteTable(&table); err != nil {
				t.Fatal(err)
			}
			encoded, err := json.Marshal(plan)
			if err != nil {
				t.Fatal(err)
			}
			texts[i] = table.String() + string(encoded)
		}
		if texts[0] != texts[1] {
			t.Errorf("two plans:\n%s\n%s", texts[0], texts[1])
		}
	})
}

// TestVanishedIsDone is edge 37, ID1: the object of an action is gone when its turn
// comes, which is success.
func TestVanishedIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		n.podDirs["a"], n.podDirs["b"] = true, true
		n.removing = func() { clear(n.podDirs) }
		n.pass(t, "both", "remove folder a", "remove folder b")
		for _, outcome := range n.outcomes {
			if outcome.Result != done {
				t.Errorf("outcome %+v", outcome)
			}
		}
	})
}

// TestDryRunBeforeSources is SG1, SG2, HI1, edge 1: before all sources were heard
// everything is a candidate and nothing is allowed.
func TestDryRunBeforeSources(t *testing.T) {
	o := busy(t)
	o.notReady = true
	plan, err := o.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range plan.Actions {
		if a.Allowed() || a.Step != StepContainers && a.Forbidden.Rule != "SG1" {
			t.Errorf("%s %s: forbidden by %q", a.Step, a.Object, a.Forbidden)
		}
	}
	if len(plan.Actions) < 10 {
		t.Errorf("%d actions", len(plan.Actions))
	}
}

// TestDryRunWithoutLists is ND11, DR3: what the plan lacks is in it as a rule, and in
// the error.
func TestDryRunWithoutLists(t *testing.T) {
	o := busy(t)
	o.runsErr, o.planErr, o.cgroupsErr = errors.New("down"), errors.New("no containers"), errors.New("no cgroups")
	plan, err := o.Plan(t.Context())
	for _, want := range []error{o.runsErr, o.planErr, o.cgroupsErr} {
		if !errors.Is(err, want) {
			t.Errorf("error %v lacks %v", err, want)
		}
	}
	for _, a := range plan.Actions {
		if a.Allowed() && a.Step != StepMirrors {
			t.Errorf("%s %s is allowed", a.Step, a.Object)
		}
	}
}

// TestLeftoverData is OD9, edge 12: data of an unmounted volume stays, and the plan
// names the rule, the path and the age.
func TestLeftoverData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := busy(t)
		o.removeErr["folder gone"] = errors.New("/pods/gone/volumes/x/data, last changed 2024-01-01: left-over data of a volume")
		_ = o.try()
		plan, err := o.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range plan.Actions {
			if a.Step == StepDirectories && a.PodUID == "gone" &&
				(a.Forbidden.Rule != "OD9" || !strings.Contains(a.Forbidden.Why, "/pods/gone/volumes/x/data, last changed 2024-01-01")) {
				t.Errorf("forbidden by %q", a.Forbidden)
			}
		}
	})
}

// TestTable is DR4: the table users read, and that no name from a manifest breaks it.
func TestTable(t *testing.T) {
	plan := Plan{}
	plan.Add(
		Action{Step: StepImages, Object: Object{ID: "app:1"}, Reason: "unused, and the disk is full", Size: 4096, Age: metav1.Duration{Duration: time.Hour}},
		Action{Step: StepDirectories, PodUID: "u", Object: Object{ID: "u"}, Reason: "no pod has this folder", Forbidden: Denial{Rule: "OD2", Why: "mounted"}},
		Action{Step: StepKillOrphan, PodUID: "v", Object: Object{Namespace: "ns", Name: "evil\x1b[2J\tname"}, Reason: "is running but not known"},
	)
	var b strings.Builder
	if err := plan.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	want := `ACTION             OBJECT                  POD UID  AGE     SIZE  VERDICT  WHY
remove pod folder  u                       u        -       -     keep     OD2: mounted
kill orphan        "ns/evil\x1b[2J\tname"  v        -       -     do       is running but not known
remove image       app:1                   -        1h0m0s  4096  do       unused, and the disk is full
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := json.Marshal(plan.Actions[2])
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"step":"remove image","kind":"image","object":"app:1","reason":"unused, and the disk is full","age":"1h0m0s","size":4096}`; string(text) != want {
		t.Errorf("JSON\n%s\nwant\n%s", text, want)
	}
}
