// Package images makes sure that a container's image is in the store before the
// container is created (spec/runtime.md 9).
//
//	policy, present, may use? ──► use it
//	                         └──► back-off? ──► credentials ──► flight ──► reference and user
//	                                                              │
//	   one per image and credentials, shared by all who wait: slot ──► rate ──► PullImage
//
// What may be shown to registries is chosen by package credentials, who may use what
// is there is kept by package pullrecords.
package images
