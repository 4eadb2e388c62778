// Package imagegc removes images nobody uses, when they are old or the disk is
// full, and can say of every image why it stays.
//
//	images, containers, desired pods ──► observe ──► first seen, last used
//	                                                    │
//	disk usage, policy, now ────────────────────────► Decide (pure) ──► Plan
//	                                                                      │
//	RemoveImage ◄── in order, until enough is freed ◄── Collector.Collect ┘
//
// [Decide] is a function over values; a [Collector] reads its input, executes the
// plan and keeps what has to be remembered: when an image was first seen and last
// used. That is lost with the process, so that after a start every image is young
// for a while, which errs on the safe side.
//
// Never removed: pinned images, images of any container, also a dead one, images a
// desired pod names, images seen for less than Policy.MinAge, and what
// Options.Keep names.
//
// Rules are numbered as in docs/spec/cleanup.md 8.2.
package imagegc
