// Package sweep chooses the dead containers and sandboxes that garbage collection
// removes (spec/cleanup.md 6, 7). It is pure: the runtime's list and the time
// come in, the choice goes out, and the same input gives the same choice.
//
//	pods, Policy, now ──► Containers ──► removed? ──► Sandboxes
package sweep
