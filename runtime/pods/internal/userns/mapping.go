package userns

import (
	"encoding/json"
	"errors"
	"fmt"
)

// unit divides the first ID of every range. The IDs below it are the node's own.
const unit = 65536

// Mapping makes the node's user and group IDs HostID and up the pod's 0 and up.
type Mapping struct{ HostID, Length uint32 }

// end is the first ID after the range.
func (m Mapping) end() int64 { return int64(m.HostID) + int64(m.Length) }

// record is a mapping on disk, in the kubelet's form.
type record struct {
	UIDs []entry `json:"uidMappings"`
	GIDs []entry `json:"gidMappings"`
}

type entry struct {
	HostID      uint32 `json:"hostId"`
	ContainerID uint32 `json:"containerId"`
	Length      uint32 `json:"length"`
}

func (m Mapping) encode() ([]byte, error) {
	e := []entry{{HostID: m.HostID, Length: m.Length}}
	return json.Marshal(record{UIDs: e, GIDs: e})
}

// decode reads a record and refuses one that no pool can have written.
func decode(text []byte) (Mapping, error) {
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return Mapping{}, err
	}
	if len(r.UIDs) != 1 || len(r.GIDs) != 1 || r.UIDs[0] != r.GIDs[0] {
		return Mapping{}, errors.New("it does not have one mapping for users and the same one for groups")
	}
	e := r.UIDs[0]
	m := Mapping{HostID: e.HostID, Length: e.Length}
	switch {
	case e.ContainerID != 0:
		return Mapping{}, fmt.Errorf("it maps the container's ID %d, not 0", e.ContainerID)
	case e.Length == 0 || e.Length%unit != 0 || e.HostID < unit || e.HostID%unit != 0 || m.end() > 1<<32-1:
		return Mapping{}, fmt.Errorf("%d IDs from %d on are no range of this node", e.Length, e.HostID)
	}
	return m, nil
}
