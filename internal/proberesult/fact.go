package proberesult

import (
	"encoding/json"
	"time"
)

// Fact is what is kept about one kind of probe of a container.
type Fact struct {
	// Stored is the result that counts.
	Stored Result
	// Last is the last executed result, and Run how often it has come in a row; if Run is 0, Last
	// says nothing.
	Last Result
	Run  int32
	// At is when Last came.
	At time.Time
}

// recordedFact is a fact in the form of records: everything that is not a success is a failure.
type recordedFact struct {
	Success     bool      `json:"success,omitempty"`
	At          time.Time `json:"at,omitzero"`
	LastSuccess bool      `json:"lastSuccess,omitempty"`
	Run         int32     `json:"run,omitempty"`
}

// MarshalJSON writes the fact in the form of records.
func (f Fact) MarshalJSON() ([]byte, error) {
	return json.Marshal(recordedFact{Success: f.Stored == Success, At: f.At, LastSuccess: f.Last == Success, Run: f.Run})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (f *Fact) UnmarshalJSON(text []byte) error {
	var r recordedFact
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	*f = Fact{Stored: resultOf(r.Success), Last: resultOf(r.LastSuccess), Run: r.Run, At: r.At}
	return nil
}

func resultOf(success bool) Result {
	if success {
		return Success
	}
	return Failure
}

// Facts are the facts of a container by kind of probe.
type Facts map[Kind]Fact

// UnmarshalJSON reads facts. Those of kinds that this version does not know become one empty fact
// under the key [Kinds], which the reader removes with [Facts.DropUnknown].
func (f *Facts) UnmarshalJSON(text []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	out := make(Facts, len(raw))
	for name, text := range raw {
		var kind Kind
		if kind.UnmarshalText([]byte(name)) != nil {
			out[Kinds] = Fact{}
			continue
		}
		var fact Fact
		if err := json.Unmarshal(text, &fact); err != nil {
			return err
		}
		out[kind] = fact
	}
	*f = out
	return nil
}

// DropUnknown removes what stands for unknown kinds, and reports whether there was any.
func (f Facts) DropUnknown() bool {
	_, found := f[Kinds]
	delete(f, Kinds)
	return found
}
