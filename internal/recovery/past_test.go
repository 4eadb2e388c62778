package recovery

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status/checkpoint"
)

// TestPastOfRecords: IN14: which records are of pods that were refused or stopped by the
// node, and what they say.
func TestPastOfRecords(t *testing.T) {
	judged, stopped := time.Unix(1, 0), time.Unix(2, 0)
	status := func(phase v1.PodPhase, reason string) *v1.PodStatus {
		return &v1.PodStatus{Phase: phase, Reason: reason}
	}
	admitted := &checkpoint.Admission{At: judged}
	stop := &checkpoint.Termination{RequestedAt: stopped, Evicted: true, Decision: &checkpoint.Decision{Phase: v1.PodFailed, Reason: "Evicted"}}
	for _, test := range []struct {
		name   string
		record checkpoint.Record
		want   Past
		known  bool
	}{
		{"runs", checkpoint.Record{Admission: admitted, Status: status(v1.PodRunning, "")}, Past{}, false},
		{"is removed", checkpoint.Record{Admission: admitted, Status: status(v1.PodRunning, ""), Termination: &checkpoint.Termination{Deleted: true}}, Past{}, false},
		{
			"refused",
			checkpoint.Record{Admission: &checkpoint.Admission{At: judged, Refused: true, Reason: "OutOfcpu"}, Status: status(v1.PodFailed, "OutOfcpu")},
			Past{Reason: "OutOfcpu", Refused: true, JudgedAt: judged},
			true,
		},
		{
			"evicted",
			checkpoint.Record{Admission: admitted, Status: status(v1.PodFailed, "Evicted"), Termination: stop, Finished: true},
			Past{Reason: "Evicted", StoppedAt: stopped, JudgedAt: judged, Finished: true},
			true,
		},
		{
			"evicted, and not told",
			checkpoint.Record{Admission: admitted, Status: status(v1.PodRunning, ""), Termination: stop},
			Past{Reason: "Evicted", StoppedAt: stopped, JudgedAt: judged},
			true,
		},
		{
			"evicted on request",
			checkpoint.Record{Admission: admitted, Status: status(v1.PodFailed, "Maintenance"), Finished: true, Termination: &checkpoint.Termination{
				RequestedAt: stopped, Evicted: true, Decision: &checkpoint.Decision{Phase: v1.PodFailed, Reason: "Maintenance", Disrupted: true},
			}},
			Past{Reason: "Maintenance", Evicted: true, StoppedAt: stopped, JudgedAt: judged, Finished: true},
			true,
		},
		{
			"failed by itself",
			checkpoint.Record{Admission: admitted, Status: status(v1.PodFailed, ""), Termination: &checkpoint.Termination{RequestedAt: stopped}},
			Past{StoppedAt: stopped, JudgedAt: judged},
			true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, known := pastOf(&test.record); known != test.known || got != test.want {
				t.Errorf("%+v, %v; want %+v, %v", got, known, test.want, test.known)
			}
		})
	}
}
