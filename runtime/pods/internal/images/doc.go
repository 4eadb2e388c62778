// Package images makes sure that a container's image is in the store before the
// container is created (spec/runtime.md 9).
//
//	policy, present, may use? ──► use it
//	                         └──► back-off? ──► credentials ──► flight ──► reference and user
//	                                                              │
//	   one per image and credentials, shared by all that wait: turn ──► rate ──► PullImage
//
// Package credentials chooses the credentials for registries. Package pullrecords keeps
// which pods may use which present images.
package images
