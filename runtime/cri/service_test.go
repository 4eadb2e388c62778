package cri_test

import (
	criapi "k8s.io/cri-api/pkg/apis"

	"github.com/podwright/podwright/runtime/cri"
)

// Any existing CRI client of k8s.io/cri-api drops in: the narrowed interfaces
// are satisfied by the full ones.
var (
	_ cri.RuntimeService = criapi.RuntimeService(nil)
	_ cri.EventStreamer  = criapi.RuntimeService(nil)
	_ cri.ImageService   = criapi.ImageManagerService(nil)
)
