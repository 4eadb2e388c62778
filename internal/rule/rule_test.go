package rule

import (
	"encoding/json"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDenialReadsAsRuleAndReason(t *testing.T) {
	for want, d := range map[string]Denial{
		"":                        {},
		"ND2: the pod is desired": {InUse, "the pod is desired"},
		"ND2":                     {Rule: InUse},
		"no such file":            {Why: "no such file"},
	} {
		if d.String() != want || d.IsZero() != (want == "") {
			t.Errorf("%q, zero %v; want %q", d, d.IsZero(), want)
		}
		text, err := json.Marshal(struct {
			Kept Denial `json:"kept,omitzero"`
		}{d})
		if wanted := `{"kept":"` + want + `"}`; err != nil || string(text) != wanted && (want != "" || string(text) != "{}") {
			t.Errorf("%s, %v; want %s", text, err, wanted)
		}
	}
}
