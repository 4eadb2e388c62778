package runtime_test

import (
	cri "k8s.io/cri-api/pkg/apis"

	"github.com/podwright/podwright/runtime"
)

// Any existing CRI client of k8s.io/cri-api drops in: the narrowed interfaces
// are satisfied by the full ones.
var (
	_ runtime.RuntimeService = cri.RuntimeService(nil)
	_ runtime.EventStreamer  = cri.RuntimeService(nil)
	_ runtime.ImageService   = cri.ImageManagerService(nil)
)
