//go:build containerd

package main

import "testing"

// TestContainerdObservabilitySeries: on a real runtime every series of alerts and dashboard is there.
func TestContainerdObservabilitySeries(t *testing.T) {
	runtime, manifests, args := onContainerd(t)
	awaitSeries(t, startAgent(t, args...), manifests, runtime.Image, func(string) bool { return false })
}
