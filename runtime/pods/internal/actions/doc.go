// Package actions decides what a pod needs next: a pure function from the pod's
// spec, what the runtime shows and the probe results to a [Plan].
//
//	Pod, Status, Probes ──► sandbox rules (5) ──► new sandbox: what to start (6.2)
//	                                         └──► kept: ephemeral (6.3), init and
//	                                              sidecars (6.4, 6.5), apps (6.7)
//
// It reads no clock, makes no call and allocates nothing when there is nothing
// to do. It ignores back-off: a container that should run is planned to start, and
// package pods holds it back.
package actions
