package eviction

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// unread is an observer that no pure decision asks.
var unread = ObserverFunc(func(context.Context) (Observation, error) { panic("asked") })

func ownSignals() []OwnSignal {
	return []OwnSignal{
		{Name: "battery.charge", Condition: "BatteryLow", Message: "the battery is nearly empty", Observer: unread},
		{Name: "licence", Condition: "example.com/Unlicensed", Message: "the licence has expired.", Observer: unread},
	}
}

// TestOwnSignalsAreAssessed: section 16, OS1, OS2. Amounts and verdicts of own signals have the grace,
// the condition and its transition that the node's have, and are due after those.
func TestOwnSignalsAreAssessed(t *testing.T) {
	charge := func(n uint64) Observation { return Observation{Available: n, Capacity: 100} }
	low := Observation{Low: true}
	type step struct {
		at       int
		readings map[Signal]Observation
		want     string // due signals, then conditions
	}
	for name, test := range map[string]struct {
		thresholds []Threshold
		steps      []step
	}{
		"an amount": {[]Threshold{{Signal: "battery.charge", Value: Value{Percent: 10}}}, []step{
			{0, map[Signal]Observation{"battery.charge": charge(10)}, "[] []"},
			{10, map[Signal]Observation{"battery.charge": charge(9)}, "[battery.charge] [BatteryLow]"},
			{20, map[Signal]Observation{"battery.charge": charge(50)}, "[] [BatteryLow]"},
			{70, map[Signal]Observation{"battery.charge": charge(50)}, "[] []"},
		}},
		"a verdict needs no value": {[]Threshold{{Signal: "licence", Grace: 30 * time.Second}}, []step{
			{0, map[Signal]Observation{"licence": {}}, "[] []"},
			{10, map[Signal]Observation{"licence": low}, "[] [example.com/Unlicensed]"},
			{39, map[Signal]Observation{"licence": low}, "[] [example.com/Unlicensed]"},
			{40, map[Signal]Observation{"licence": low}, "[licence] [example.com/Unlicensed]"},
		}},
		"a verdict beats the amount": {[]Threshold{{Signal: "battery.charge", Value: Value{Percent: 10}}}, []step{
			{0, map[Signal]Observation{"battery.charge": {Available: 100, Capacity: 100, Low: true}}, "[battery.charge] [BatteryLow]"},
		}},
		"flapping never meets a grace, and holds the condition": {[]Threshold{{Signal: "licence", Grace: 20 * time.Second}}, []step{
			{0, map[Signal]Observation{"licence": low}, "[] [example.com/Unlicensed]"},
			{10, map[Signal]Observation{"licence": {}}, "[] [example.com/Unlicensed]"},
			{20, map[Signal]Observation{"licence": low}, "[] [example.com/Unlicensed]"},
			{30, map[Signal]Observation{"licence": {}}, "[] [example.com/Unlicensed]"},
			{90, map[Signal]Observation{"licence": {}}, "[] []"},
		}},
		"what is not read decides nothing, and breaks no grace": {[]Threshold{{Signal: "licence", Grace: 20 * time.Second}}, []step{
			{0, map[Signal]Observation{"licence": low}, "[] [example.com/Unlicensed]"},
			{10, nil, "[] [example.com/Unlicensed]"},
			{20, map[Signal]Observation{"licence": low}, "[licence] [example.com/Unlicensed]"},
			{30, nil, "[] [example.com/Unlicensed]"},
		}},
		"after the node's, in their order": {
			[]Threshold{{Signal: "licence"}, {Signal: "battery.charge", Value: Value{Quantity: 10}}, {Signal: ImageFsInodesFree, Value: Value{Quantity: 10}}},
			[]step{{
				0,
				map[Signal]Observation{"licence": low, "battery.charge": charge(1), ImageFsInodesFree: {Available: 1}},
				"[imagefs.inodesFree battery.charge licence] [BatteryLow DiskPressure example.com/Unlicensed]",
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy, state := Policy{Thresholds: test.thresholds, Own: ownSignals(), Transition: time.Minute}, history{}
			for _, s := range test.steps {
				v := assess(policy, state, s.readings, time.Unix(int64(s.at), 0))
				state = v.history
				due := []Signal{}
				for _, b := range v.Due {
					due = append(due, b.Signal)
				}
				if got := fmt.Sprint(due, " ", v.Conditions); got != s.want {
					t.Errorf("second %d: %s, want %s", s.at, got, s.want)
				}
			}
		})
	}
}

// TestOwnSignalsRankByPriority: OS3. Pods use nothing of an own signal: what they use of other things,
// and what they request under its name, does not count.
func TestOwnSignalsRankByPriority(t *testing.T) {
	c := func(name string, class v1.PodQOSClass, priority int32, used uint64, request string) candidate {
		out := candidate{Pod: pod(name, withPriority(priority)), Usage: Usage{Memory: used, Disk: used, PIDs: used}}
		out.Pod.Status.QOSClass = class
		if request != "" {
			list := v1.ResourceList{"battery.charge": resource.MustParse(request)}
			out.Pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: list}}}
		}
		return out
	}
	pods := []candidate{
		c("asks", v1.PodQOSBurstable, 0, 0, "100"), c("hog", v1.PodQOSGuaranteed, 0, 900, ""), c("vip", v1.PodQOSBestEffort, 10, 900, ""),
		c("b", v1.PodQOSBestEffort, 0, 0, ""), c("low", v1.PodQOSGuaranteed, -1, 0, ""), c("a", v1.PodQOSBestEffort, 0, 0, ""),
	}
	policy := Policy{Own: ownSignals()}
	rank(policy.kind("battery.charge"), pods)
	var names []string
	for _, c := range pods {
		names = append(names, c.Pod.Name)
	}
	if got, want := strings.Join(names, " "), "low a b asks hog vip"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
}

// TestOwnSignalsSayWhy: OS4. Pods and conditions show the reading's own message, or the signal's.
func TestOwnSignalsSayWhy(t *testing.T) {
	policy := Policy{
		Thresholds: []Threshold{{Signal: "licence"}, {Signal: "battery.charge", Value: Value{Percent: 10}}}, Own: ownSignals(), Transition: time.Minute,
	}
	for name, test := range map[string]struct {
		signal    Signal
		reading   Observation
		pod, node string
	}{
		"amount":               {"battery.charge", Observation{Available: 5, Capacity: 200}, "Eviction signal battery.charge: the battery is nearly empty. Threshold quantity: 20, available: 5.", "the battery is nearly empty"},
		"amount that explains": {"battery.charge", Observation{Available: 5, Capacity: 200, Message: "cell 3 is dead"}, "Eviction signal battery.charge: cell 3 is dead. Threshold quantity: 20, available: 5.", "cell 3 is dead"},
		"verdict":              {"licence", Observation{Low: true}, "Eviction signal licence: the licence has expired.", "the licence has expired."},
		"verdict with amounts": {"licence", Observation{Low: true, Available: 3, Message: "expired on 3 May"}, "Eviction signal licence: expired on 3 May.", "expired on 3 May"},
	} {
		t.Run(name, func(t *testing.T) {
			v := assess(policy, history{}, map[Signal]Observation{test.signal: test.reading}, time.Unix(0, 0))
			if len(v.Due) != 1 {
				t.Fatalf("due %v", v.Due)
			}
			if got := message(v.Due[0], candidate{Pod: pod("p"), Usage: Usage{Memory: 7}}); got != test.pod {
				t.Errorf("pod: %s", got)
			}
			// The next reading is good: the condition stays for the transition, with its words.
			v = assess(policy, v.history, map[Signal]Observation{test.signal: {Available: 100, Capacity: 100, Message: "all is well"}}, time.Unix(10, 0))
			for _, w := range policy.words(v.history.said) {
				if len(v.Conditions) == 1 && w.kind == v.Conditions[0] && w.badMessage != test.node {
					t.Errorf("condition %s: %s", w.kind, w.badMessage)
				}
			}
			if len(v.Conditions) != 1 {
				t.Errorf("conditions %v", v.Conditions)
			}
		})
	}
}

func TestBadOwnSignalsAreRefused(t *testing.T) {
	good := ownSignals()[0]
	for name, test := range map[string]struct {
		change func(*OwnSignal)
		want   string // empty: it is fine
	}{
		"good":                     {func(*OwnSignal) {}, ""},
		"prefixed condition":       {func(s *OwnSignal) { s.Condition = "example.com/BatteryLow" }, ""},
		"no name":                  {func(s *OwnSignal) { s.Name = "" }, "Name: want"},
		"name with spaces":         {func(s *OwnSignal) { s.Name = "my battery" }, "Name: want"},
		"the node's":               {func(s *OwnSignal) { s.Name = MemoryAvailable }, "Name is taken"},
		"a pod's limit":            {func(s *OwnSignal) { s.Name = "emptydirfs.limit" }, "Name is taken"},
		"no condition":             {func(s *OwnSignal) { s.Condition = "" }, "Condition"},
		"condition with a dash":    {func(s *OwnSignal) { s.Condition = "battery-low" }, "Condition"},
		"condition of the node":    {func(s *OwnSignal) { s.Condition = v1.NodeReady }, "Condition Ready is taken"},
		"condition of another one": {func(s *OwnSignal) { s.Condition = "Other" }, "Condition Other is taken"},
		"name of another one":      {func(s *OwnSignal) { s.Name = "other" }, "Name is taken"},
		"no message":               {func(s *OwnSignal) { s.Message = "" }, "Message and Observer"},
		"no observer":              {func(s *OwnSignal) { s.Observer = nil }, "Message and Observer"},
		"no threshold":             {func(s *OwnSignal) { s.Name = "battery.level" }, "no threshold names it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			test.change(&s)
			other := OwnSignal{Name: "other", Condition: "Other", Message: "m", Observer: unread}
			thresholds := []Threshold{{Signal: "other"}, {Signal: s.Name}}
			if name == "no threshold" {
				thresholds = thresholds[:1]
			}
			_, err := Policy{Thresholds: thresholds, Own: []OwnSignal{other, s}}.complete()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
