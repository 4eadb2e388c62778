// Package images makes sure that a container's image is in the store before the
// container is created (spec/runtime.md 9).
//
//	policy, present? ──► use it
//	                └──► back-off? ──► slot ──► PullImage ──► reference and user
//
// It knows no credentials: every pull is anonymous.
package images
