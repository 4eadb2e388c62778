// Package meta writes and reads what the engine keeps on sandboxes and containers:
// labels, annotations and the hash of a container's definition (spec/runtime.md 2). It
// decides nothing.
//
//	v1.Pod, v1.Container ──Labels, Annotations──► runtime object ──Restore──► Restored
package meta
