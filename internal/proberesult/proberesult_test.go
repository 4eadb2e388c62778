package proberesult_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/proberesult"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Records of earlier versions name the kinds in lower case.
func TestKindsAreKeysOfRecords(t *testing.T) {
	all := map[proberesult.Kind]string{
		proberesult.Startup: "Startup", proberesult.Liveness: "Liveness", proberesult.Readiness: "Readiness",
	}
	for kind, name := range all {
		if kind.String() != name {
			t.Errorf("%s is called %s", name, kind)
		}
	}
	text, err := json.Marshal(all)
	if want := `{"liveness":"Liveness","readiness":"Readiness","startup":"Startup"}`; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	var read map[proberesult.Kind]string
	if err := json.Unmarshal(text, &read); err != nil || !cmp.Equal(read, all) {
		t.Errorf("read back: %v, %v", read, err)
	}
	if err := json.Unmarshal([]byte(`{"other":""}`), &read); err == nil {
		t.Error("an unknown kind is read")
	}
	if _, err := json.Marshal(proberesult.Kind(proberesult.Kinds)); err == nil {
		t.Error("an unknown kind is written")
	}
}

func TestResultsHaveWords(t *testing.T) {
	for result, want := range map[proberesult.Result]string{
		proberesult.Unknown: "Unknown", proberesult.Success: "Success", proberesult.Failure: "Failure", proberesult.None: "None",
	} {
		if result.String() != want {
			t.Errorf("%s, want %s", result, want)
		}
	}
}

// CK2: records of earlier versions are read as they were written, and kinds of later versions
// are left out.
func TestFactsAreReadFromRecords(t *testing.T) {
	const text = `{"liveness":{"lastSuccess":true,"run":2},"readiness":{"success":true,"at":"2026-01-02T03:04:05Z"}}`
	want := proberesult.Facts{
		proberesult.Liveness:  {Stored: proberesult.Failure, Last: proberesult.Success, Run: 2},
		proberesult.Readiness: {Stored: proberesult.Success, Last: proberesult.Failure, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
	}
	var got proberesult.Facts
	if err := json.Unmarshal([]byte(text), &got); err != nil || !cmp.Equal(got, want) || got.DropUnknown() {
		t.Errorf("read: %+v, %v", got, err)
	}
	if again, err := json.Marshal(got); err != nil || string(again) != text {
		t.Errorf("written: %s, %v", again, err)
	}
	const later = `{"disk":{"success":true},"liveness":{"lastSuccess":true,"run":2},"tape":"full"}`
	if err := json.Unmarshal([]byte(later), &got); err != nil || !got.DropUnknown() || !cmp.Equal(got, proberesult.Facts{proberesult.Liveness: want[proberesult.Liveness]}) {
		t.Errorf("read of a later version: %+v, %v", got, err)
	}
	for _, damaged := range []string{`[]`, `{"liveness":1}`} {
		if err := json.Unmarshal([]byte(damaged), &got); err == nil {
			t.Errorf("%s is read", damaged)
		}
	}
}
