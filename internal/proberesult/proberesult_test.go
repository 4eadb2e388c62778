package proberesult_test

import (
	"encoding/json"
	"testing"

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
