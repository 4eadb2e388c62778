package eviction

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestUnreadSignalsAreReported: section 16: what a limit needs and cannot be read is a problem after 10 s, and its
// condition is Unknown after the transition period; what the node does not have is neither.
func TestUnreadSignalsAreReported(t *testing.T) {
	broken := errors.New("statfs /x: input/output error")
	all := map[Signal]Observation{NodeFsAvailable: {Available: 900, Capacity: 1000}, ImageFsAvailable: {Available: 900, Capacity: 1000}}
	const nodefs, both = "nodefs.available", "imagefs.available, nodefs.available"
	for _, test := range []struct {
		name     string
		readings map[Signal]Observation // after the first minute; all before it, unless fails is set
		err      error
		fails    bool // from the start
		last     time.Duration
		problems string
		status   v1.ConditionStatus
		message  string
	}{
		{"read", all, nil, false, time.Hour, "", v1.ConditionFalse, "the node has no disk pressure"},
		{"a moment ago", nil, broken, false, 65 * time.Second, "", v1.ConditionFalse, "the node has no disk pressure"},
		{"within the transition period", nil, broken, false, 3 * time.Minute, both, v1.ConditionFalse, "the node has no disk pressure"},
		{"for long", nil, broken, false, 7 * time.Minute, both, v1.ConditionUnknown, both + " cannot be read"},
		{"one of two", map[Signal]Observation{ImageFsAvailable: all[ImageFsAvailable]}, broken, false, 7 * time.Minute, nodefs, v1.ConditionUnknown, nodefs + " cannot be read"},
		{"never", nil, broken, true, time.Hour, both, v1.ConditionUnknown, both + " cannot be read"},
		{"there is none", map[Signal]Observation{NodeFsAvailable: all[NodeFsAvailable]}, nil, true, time.Hour, "", v1.ConditionFalse, "the node has no disk pressure"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{readings: all}
				change := func() { n.mu.Lock(); n.readings, n.err = test.readings, test.err; n.mu.Unlock() }
				if test.fails {
					change()
				} else {
					time.AfterFunc(time.Minute, change)
				}
				m, _ := n.run(t, test.last, Policy{Thresholds: thresholds(t, Text{Hard: "nodefs.available<100,imagefs.available<100"})})
				var names []string
				for _, p := range m.Problems() {
					names = append(names, p.Name)
					if p.Cause != broken.Error() {
						t.Errorf("problem %v", p)
					}
				}
				if got := strings.Join(names, ", "); got != test.problems {
					t.Errorf("problems %q, want %q", got, test.problems)
				}
				if c := m.Conditions()[1]; c.Type != v1.NodeDiskPressure || c.Status != test.status || c.Message != test.message {
					t.Errorf("condition %+v, want %s, %s", c, test.status, test.message)
				}
				if len(m.Pressure()) > 0 {
					t.Errorf("pressure %v", m.Pressure())
				}
			})
		})
	}
}

// TestGapsRememberWhatTheNodeDoesNotHave: an error about one signal says nothing about one that the node does not have; the
// gap of a signal begins with its first missing reading; a gap of an own signal needs no error.
func TestGapsRememberWhatTheNodeDoesNotHave(t *testing.T) {
	policy, err := Policy{Thresholds: []Threshold{{Signal: NodeFsAvailable}, {Signal: ImageFsAvailable}, {Signal: "licence"}}, Own: ownSignals()[1:]}.complete()
	if err != nil {
		t.Fatal(err)
	}
	has, broken := map[Signal]bool{}, errors.New("broken")
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	gaps := policy.gaps(nil, has, reading(NodeFsAvailable, 1), nil, at(0))
	if len(gaps) != 1 || !gaps["licence"].since.Equal(at(0)) {
		t.Errorf("gaps %v", gaps)
	}
	gaps = policy.gaps(gaps, has, nil, broken, at(10))
	if len(gaps) != 2 || !gaps[NodeFsAvailable].since.Equal(at(10)) || gaps[NodeFsAvailable].err == nil || !gaps["licence"].since.Equal(at(0)) {
		t.Errorf("gaps %v", gaps)
	}
	if gaps = policy.gaps(gaps, has, reading(ImageFsAvailable, 1), broken, at(20)); !gaps[NodeFsAvailable].since.Equal(at(10)) {
		t.Errorf("gaps %v", gaps)
	}
	if gaps = policy.gaps(gaps, has, nil, broken, at(30)); len(gaps) != 3 || !gaps[ImageFsAvailable].since.Equal(at(30)) {
		t.Errorf("gaps %v of a node that has the file system by now", gaps)
	}
}

// TestErrorsAboutOtherSignals: section 16: an error explains only the absence of what it is about. One that names no signal is about
// those that were read before, or about all if nothing can be read.
func TestErrorsAboutOtherSignals(t *testing.T) {
	some := map[Signal]Observation{MemoryAvailable: {Available: 900 << 20, Capacity: 1000 << 20}, NodeFsAvailable: {Available: 900, Capacity: 1000}}
	broken := errors.New("broken")
	about := func(s Signal) error { return &signalError{s, broken} }
	for _, test := range []struct {
		name     string
		readings map[Signal]Observation
		err      error
		want     string
	}{
		{"a signal that is read", some, about(MemoryAvailable), ""},
		{"no signal", some, broken, ""},
		{"a signal that is not read, and one that is", some, fmt.Errorf("stats: %w", errors.Join(about(MemoryAvailable), about(ImageFsAvailable))), "imagefs.available"},
		{"one of those that are not read", nil, errors.Join(about(NodeFsAvailable), broken), "nodefs.available"},
		{"everything", nil, broken, "imagefs.available imagefs.inodesFree memory.available nodefs.available nodefs.inodesFree"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{readings: test.readings, err: test.err}
				m, _ := n.run(t, time.Hour, Policy{})
				var names []string
				for _, p := range m.Problems() {
					names = append(names, p.Name)
				}
				if got := strings.Join(names, " "); got != test.want {
					t.Errorf("problems %q, want %q", got, test.want)
				}
				if c := m.Conditions()[1]; (c.Status == v1.ConditionUnknown) != (test.want != "") {
					t.Errorf("condition %+v", c)
				}
			})
		})
	}
}

// TestConditionDoesNotLookGoodBeforeItIsUnknown: section 16: one that was True is not False while its signal is not read.
func TestConditionDoesNotLookGoodBeforeItIsUnknown(t *testing.T) {
	for _, transition := range []time.Duration{0, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{readings: reading(NodeFsAvailable, 10)}
			n.at(35*time.Second, func() { n.readings, n.err = nil, errors.New("io") })
			n.at(10*time.Minute, func() { n.readings, n.err = reading(NodeFsAvailable, 900), nil })
			m, got := n.run(t, 20*time.Minute, Policy{Transition: transition, Thresholds: thresholds(t, Text{Hard: "nodefs.available<100"})})
			if strings.Count(got, "conditions changed") != 3 || m.Conditions()[1].Status != v1.ConditionFalse {
				t.Errorf("happened:\n%s\n%+v", got, m.Conditions()[1])
			}
		})
	}
}
