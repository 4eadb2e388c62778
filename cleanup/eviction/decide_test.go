package eviction

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/podinfo"
)

func pod(name string, edits ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	for _, e := range edits {
		e(p)
	}
	return p
}

func withPriority(n int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = &n } }

func withGrace(n int64) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To(n) }
}

func thresholds(t *testing.T, text Text) []Threshold {
	t.Helper()
	out, err := text.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAssess: section 16,  Each step is a reading of memory (of 1000) and
// of nodefs (of 1000), -1 for none, at a second, and what it leads to.
func TestAssess(t *testing.T) {
	type step struct {
		at           int
		memory, disk int
		want         string // due signals, then conditions
	}
	tests := []struct {
		name  string
		text  Text
		steps []step
	}{
		{"hard limits are due at once", Text{Hard: "memory.available<100"}, []step{
			{0, 100, -1, "[] []"}, {10, 99, -1, "[memory.available] [MemoryPressure]"},
		}},
		{"percentages", Text{Hard: "memory.available<10%"}, []step{{0, 100, -1, "[] []"}, {10, 99, -1, "[memory.available] [MemoryPressure]"}}},
		{"a condition stays for the transition", Text{Hard: "memory.available<100"}, []step{
			{0, 99, -1, "[memory.available] [MemoryPressure]"}, {10, 200, -1, "[] [MemoryPressure]"}, {59, 200, -1, "[] [MemoryPressure]"}, {60, 200, -1, "[] []"},
		}},
		{"soft limits wait for their grace, the condition does not", Text{Soft: "memory.available<100", SoftGrace: "memory.available=30s"}, []step{
			{0, 99, -1, "[] [MemoryPressure]"}, {29, 99, -1, "[] [MemoryPressure]"}, {30, 99, -1, "[memory.available] [MemoryPressure]"},
		}},
		{"a break starts the grace again", Text{Soft: "memory.available<100", SoftGrace: "memory.available=30s"}, []step{
			{0, 99, -1, "[] [MemoryPressure]"}, {20, 100, -1, "[] [MemoryPressure]"}, {30, 99, -1, "[] [MemoryPressure]"}, {60, 99, -1, "[memory.available] [MemoryPressure]"},
		}},
		{"minimum reclaim holds only what was acted on", Text{Hard: "memory.available<100", MinReclaim: "memory.available=50"}, []step{
			{0, 120, -1, "[] []"},
			{10, 99, -1, "[memory.available] [MemoryPressure]"},
			{20, 149, -1, "[memory.available] [MemoryPressure]"},
			{30, 150, -1, "[] [MemoryPressure]"},
			{40, 149, -1, "[] [MemoryPressure]"},
		}},
		{"memory before disk", Text{Hard: "memory.available<100,nodefs.available<100"}, []step{
			{0, 50, 50, "[memory.available nodefs.available] [DiskPressure MemoryPressure]"}, {10, 500, 50, "[nodefs.available] [DiskPressure MemoryPressure]"},
		}},
		{"hard before soft", Text{Hard: "memory.available<100", Soft: "memory.available<200", SoftGrace: "memory.available=1s"}, []step{
			{0, 150, -1, "[] [MemoryPressure]"}, {10, 50, -1, "[memory.available memory.available 1s] [MemoryPressure]"},
		}},
		{"a signal that cannot be read decides nothing", Text{Soft: "memory.available<100", SoftGrace: "memory.available=30s"}, []step{
			{0, 99, -1, "[] [MemoryPressure]"}, {10, -1, -1, "[] [MemoryPressure]"}, {30, 99, -1, "[memory.available] [MemoryPressure]"}, {40, -1, -1, "[] [MemoryPressure]"},
		}},
		{"no limits", Text{}, []step{{0, 0, 0, "[] []"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			policy := Policy{Thresholds: thresholds(t, test.text), Transition: time.Minute}
			var state history
			for _, s := range test.steps {
				readings := map[Signal]Observation{}
				for signal, n := range map[Signal]int{MemoryAvailable: s.memory, NodeFsAvailable: s.disk} {
					if n >= 0 {
						readings[signal] = Observation{Available: uint64(n), Capacity: 1000}
					}
				}
				v := assess(policy, state, readings, time.Unix(int64(s.at), 0))
				state = v.history
				due := []string{}
				for i, b := range v.Due {
					due = append(due, string(b.Signal))
					if i > 0 && !b.Hard() {
						due = append(due, b.Grace.String())
					}
				}
				if got := fmt.Sprint(due, " ", v.Conditions); got != s.want {
					t.Errorf("second %d: %s, want %s", s.at, got, s.want)
				}
			}
		})
	}
}

// TestDefaults: the hard limits of section 16.
func TestDefaults(t *testing.T) {
	parsed := thresholds(t, Text{Hard: "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%"})
	defaults := DefaultThresholds()
	for _, list := range [][]Threshold{parsed, defaults} {
		slices.SortFunc(list, func(a, b Threshold) int { return strings.Compare(string(a.Signal), string(b.Signal)) })
	}
	if !slices.Equal(parsed, defaults) {
		t.Errorf("defaults %+v, want %+v", defaults, parsed)
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, err string
		text      Text
	}{
		{"unknown signal", `no signal "memory.free"; there are imagefs.available, `, Text{Hard: "memory.free<1"}},
		{"a signal of the program's own that is not given", `no signal "battery.charge"`, Text{Hard: "battery.charge<10%"}},
		{"no value", "want a signal", Text{Hard: "memory.available<"}},
		{"no signal", "want a signal", Text{Hard: "<1"}},
		{"wrong operator", "want a signal", Text{Hard: "memory.available>1"}},
		{"twice", "given twice", Text{Hard: "memory.available<1,memory.available<2"}},
		{"no amount", "neither an amount", Text{Hard: "memory.available<lots"}},
		{"negative", "neither an amount", Text{Hard: "memory.available<-1"}},
		{"percentage above 100", "not between", Text{Hard: "memory.available<101%"}},
		{"percentage that is none", "not between", Text{Hard: "memory.available<NaN%"}},
		{"soft without grace", "needs a grace", Text{Soft: "memory.available<1"}},
		{"soft with grace 0", "needs a grace", Text{Soft: "memory.available<1", SoftGrace: "memory.available=0s"}},
		{"grace without limit", "no soft limit", Text{SoftGrace: "memory.available=1s"}},
		{"reclaim without limit", "no limit", Text{MinReclaim: "memory.available=1"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := test.text.Parse(); err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
	if got := thresholds(t, Text{Hard: " memory.available < 0% , "}); len(got) != 0 {
		t.Errorf("a limit of 0 %%: %+v, want none", got)
	}
}

// TestParseOwnSignals: a text names signals of the program's own once they are given (OS1). A limit
// of 0 stays, as an observation may say Low.
func TestParseOwnSignals(t *testing.T) {
	text := Text{Hard: "memory.available<1Gi,battery.charge<10%,licence<0", Soft: "battery.charge<30%", SoftGrace: "battery.charge=10m", MinReclaim: "battery.charge=5%"}
	got, err := text.Parse("battery.charge", "licence")
	want := []Threshold{
		{Signal: "battery.charge", Value: Value{Percent: 10}, MinReclaim: Value{Percent: 5}},
		{Signal: "licence"},
		{Signal: MemoryAvailable, Value: Value{Quantity: 1 << 30}},
		{Signal: "battery.charge", Value: Value{Percent: 30}, Grace: 10 * time.Minute, MinReclaim: Value{Percent: 5}},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if _, err := (Text{Hard: "licence<0"}).Parse("battery.charge"); err == nil || !strings.Contains(err.Error(), "battery.charge, imagefs.available") {
		t.Errorf("error %v does not list the signals there are", err)
	}
}

// TestRank: section 16, eviction: the order in which pods go.
func TestRank(t *testing.T) {
	c := func(name string, class v1.PodQOSClass, used uint64, request string, edits ...func(*v1.Pod)) candidate {
		out := candidate{Pod: pod(name, edits...), Usage: Usage{Memory: used, Disk: used, Inodes: used, PIDs: used}}
		out.Pod.Status.QOSClass = class
		if request != "" {
			out.Pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse(request)},
			}}}
		}
		return out
	}
	be, bu, gu := v1.PodQOSBestEffort, v1.PodQOSBurstable, v1.PodQOSGuaranteed
	tests := []struct {
		name   string
		signal Signal
		pods   []candidate
		want   string
	}{
		{"above the request first", MemoryAvailable, []candidate{c("within", gu, 900, "1000"), c("above", bu, 20, "10"), c("none", be, 5, "")}, "above none within"},
		{"then priority", MemoryAvailable, []candidate{c("high", be, 500, "", withPriority(10)), c("low", be, 5, "", withPriority(-1)), c("zero", be, 50, "")}, "low zero high"},
		{"a high priority does not save one that uses too much", MemoryAvailable, []candidate{c("within", gu, 900, "1000"), c("above", bu, 11, "10", withPriority(1000))}, "above within"},
		{"then the excess", MemoryAvailable, []candidate{c("small", bu, 110, "100"), c("large", bu, 60, "10")}, "large small"},
		{"then the class", MemoryAvailable, []candidate{c("gu", gu, 0, ""), c("bu", bu, 0, ""), c("be", be, 0, "")}, "be bu gu"},
		{"unknown usage counts as none", MemoryAvailable, []candidate{c("unknown", be, 0, ""), c("known", bu, 20, "10")}, "known unknown"},
		{"process IDs have no requests", PIDAvailable, []candidate{c("few", be, 5, "1000"), c("many", gu, 50, "1000")}, "many few"},
		{"disk", NodeFsAvailable, []candidate{c("few", be, 5, ""), c("many", gu, 50, "1000")}, "many few"},
		{"inodes", ImageFsInodesFree, []candidate{c("few", be, 5, ""), c("many", gu, 50, "1000")}, "many few"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for range 2 { // also from the other order
				var names []string
				rank(test.signal.kind(), test.pods)
				for _, c := range test.pods {
					names = append(names, c.Pod.Name)
				}
				if got := strings.Join(names, " "); got != test.want {
					t.Errorf("order %s, want %s", got, test.want)
				}
				slices.Reverse(test.pods)
			}
		})
	}
}

// TestAdmit: section 16, eviction admission; AD7.
func TestAdmit(t *testing.T) {
	memory, disk := []v1.NodeConditionType{v1.NodeMemoryPressure}, []v1.NodeConditionType{v1.NodeDiskPressure}
	tolerates := func(tol v1.Toleration) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{tol} }
	}
	key := v1.TaintNodeMemoryPressure
	tests := []struct {
		name     string
		pressure []v1.NodeConditionType
		pod      *v1.Pod
		class    v1.PodQOSClass
		want     bool
	}{
		{"no pressure", nil, pod("a"), v1.PodQOSBestEffort, true},
		{"critical", disk, pod("a", withPriority(2_000_000_000)), v1.PodQOSBestEffort, true},
		{"critical by class", disk, pod("a", func(p *v1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }), v1.PodQOSBestEffort, true},
		{"not quite critical", disk, pod("a", withPriority(1_999_999_999)), v1.PodQOSGuaranteed, false},
		{"memory, burstable", memory, pod("a"), v1.PodQOSBurstable, true},
		{"memory, best effort", memory, pod("a"), v1.PodQOSBestEffort, false},
		{"memory, tolerated", memory, pod("a", tolerates(v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule})), v1.PodQOSBestEffort, true},
		{"memory, everything tolerated", memory, pod("a", tolerates(v1.Toleration{Operator: v1.TolerationOpExists})), v1.PodQOSBestEffort, true},
		{"memory, equal", memory, pod("a", tolerates(v1.Toleration{Key: key})), v1.PodQOSBestEffort, true},
		{"memory, another effect", memory, pod("a", tolerates(v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute})), v1.PodQOSBestEffort, false},
		{"memory, another key", memory, pod("a", tolerates(v1.Toleration{Key: "x", Operator: v1.TolerationOpExists})), v1.PodQOSBestEffort, false},
		{"memory, an unknown operator", memory, pod("a", tolerates(v1.Toleration{Key: key, Operator: "Near"})), v1.PodQOSBestEffort, false},
		{"disk", disk, pod("a"), v1.PodQOSGuaranteed, false},
		{"disk and memory", append(slices.Clone(disk), memory...), pod("a"), v1.PodQOSGuaranteed, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.pod.Status.QOSClass = test.class
			ok, text := admit(test.pressure, test.pod, podinfo.Critical(test.pod))
			if ok != test.want || ok != (text == "") {
				t.Errorf("admitted %v (%q), want %v", ok, text, test.want)
			}
		})
	}
}
