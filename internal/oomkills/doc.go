// Package oomkills counts and reports what the kernel kills in containers for lack of memory
// (docs/spec/runtime.md 28).
//
//	changes of pods ──► Noticed ──► lives ◄── look ◄── every 10 s, and a reading of the metrics
//	                       │          │         └── memory.events, memory.oom_control of the containers
//	                       └ ends     ├──► container_oom_events_total
//	                                  └──► event OOMKilled
//
// The cgroup of a container is gone when its end is seen, so its last kill is known from what the runtime
// says about the end. A kill of a process whose container continues is known only from the cgroup.
package oomkills
