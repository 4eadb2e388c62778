//go:build containerd

package cri_test

import (
	"testing"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/runtimetest"
)

// The suite on a real containerd.
func TestConformanceContainerd(t *testing.T) {
	i := containerdtest.Start(t)
	c := dial(t, i.Endpoint, cri.Options{})
	runtimetest.Run(t, func(t *testing.T) runtimetest.Subject {
		return runtimetest.Subject{
			Runtime: c,
			Images:  c,
			Image:   i.Image,
			Command: runtimetest.Shell("/bin/sh"),
			// containerd before 1.7 has no event stream; the suite finds out.
		}
	})
}
