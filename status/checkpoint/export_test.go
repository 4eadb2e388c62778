package checkpoint

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/seal"
)

// What the tests look at from outside.
type (
	FaultError = faultError
	Figures    = figures
)

const MaxSize = maxSize

func Protect(r *Record, next *v1.PodStatus) *v1.PodStatus { return protect(r, next) }

func (k *Keeper) Stats() Figures { return k.stats() }

// FileOfVersion is a record file of some format version, with a right checksum.
func FileOfVersion(version int, body []byte) []byte {
	return seal.Frame(magic, version, body)
}

// ErrRunning is the error of a second Run.
var ErrRunning = errRunning
