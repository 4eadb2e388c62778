//go:build !linux

package agenttest

// unmountBelow has nothing to do: volumes are mounts on Linux alone.
func unmountBelow(string) error { return nil }
