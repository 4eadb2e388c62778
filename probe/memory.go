package probe

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// noMemory forgets everything.
type noMemory struct{}

func (noMemory) Recall(types.UID, string, runtime.ContainerID) *Record { return nil }

func (noMemory) Remember(types.UID, string, runtime.ContainerID, Kind, Fact, bool) {}
