package dirlock

import (
	"errors"
	"fmt"
	"os"
)

// ErrSameOwner is returned by [Rival] while an engine of the same owner runs elsewhere.
var ErrSameOwner = errors.New("another engine runs with the same owner")

// Rival returns an error if the engine that holds theirs runs, or may run, for the same owner as the
// engine that holds ours. If the two are the same folder, under whatever names, there is no rival. A folder
// that is gone, or is on another machine, belongs to an engine that has ended.
func Rival(theirs, ours, owner string) error {
	their, err := os.Stat(theirs)
	if err != nil {
		return nil
	}
	if our, err := os.Stat(ours); err != nil || os.SameFile(our, their) {
		return nil
	}
	holder, held := Holder(theirs)
	switch {
	case !held || holder != "" && holder != owner:
		return nil
	case holder == "":
		return fmt.Errorf("%w, or may: the engine on %s could not record its OwnerID, and would stop what this one starts if it is %q too; end that engine, or free space on its disk and start it again",
			ErrSameOwner, theirs, owner)
	}
	way := "end that engine, or give this one another Node.OwnerID or Node.Name"
	if tenant(ours) != "" { // another owner would be refused
		way = fmt.Sprintf("end that engine; to run both later, first drain the node on %s under this ID, remove that folder, and give this engine another Node.OwnerID", ours)
	}
	return fmt.Errorf("%w: the engine on %s has the OwnerID %q too, and would stop what this one starts; %s", ErrSameOwner, theirs, owner, way)
}
