//go:build !race && containerd

package main

// memoryLimitKiB is what a hostile tenant may cost the agent.
const memoryLimitKiB = 20 << 10
