//go:build race && containerd

package main

// memoryLimitKiB is what a hostile tenant may cost the agent; the race detector multiplies memory.
const memoryLimitKiB = 200 << 10
