package proberesult

import "fmt"

// Kind is a kind of probe.
type Kind uint8

// Kinds.
const (
	Startup Kind = iota
	Liveness
	Readiness
	// Kinds is the number of kinds.
	Kinds = 3
)

// String returns the name as events and metrics show it.
func (k Kind) String() string {
	if k >= Kinds {
		return "Unknown"
	}
	return [...]string{"Startup", "Liveness", "Readiness"}[k]
}

// key is the name of a kind in a record.
func (k Kind) key() string { return [...]string{"startup", "liveness", "readiness"}[k] }

// MarshalText writes the name of the kind in records.
func (k Kind) MarshalText() ([]byte, error) {
	if k >= Kinds {
		return nil, fmt.Errorf("%d is not a kind of probe", k)
	}
	return []byte(k.key()), nil
}

// UnmarshalText reads what MarshalText wrote.
func (k *Kind) UnmarshalText(text []byte) error {
	for known := range Kind(Kinds) {
		if known.key() == string(text) {
			*k = known
			return nil
		}
	}
	return fmt.Errorf("%q is not a kind of probe", text)
}
