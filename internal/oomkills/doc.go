// Package oomkills counts what the kernel kills in containers for want of memory, and tells of it
// (docs/spec/runtime.md 28).
//
//	changes of pods ──► Noticed ──► lives ◄── look ◄── every 10 s, and a reading of the metrics
//	                       │          │         └── memory.events, memory.oom_control of the containers
//	                       └ ends     ├──► container_oom_events_total
//	                                  └──► event OOMKilled
//
// The cgroup of a container is gone when its end is seen, so its last kill is known from what the
// runtime says of the end. A process that is killed while its container goes on is known from the cgroup alone.
package oomkills
