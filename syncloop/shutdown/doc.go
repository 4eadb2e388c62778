// Package shutdown says in which order pods stop when their node does, and how much
// time each has.
//
//	pods ──► Plan.Batches (pure) ──► batch of priority 0:          all at once, at most 60 s
//	groups                           batch of priority 1000000:    then these, at most 30 s
//	                                 batch of priority 2000000000: and these last
//
// The caller stops the pods, with the status that [Amend] makes, and describes in a
// [Report] how they ended.
//
// Rules are those of docs/spec/syncloop.md 16.
package shutdown
