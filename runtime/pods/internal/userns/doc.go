// Package userns hands out ranges of user IDs to pods with a user namespace of
// their own (spec/runtime.md 3.7).
//
//	Acquire(pod) ──► free range ──► record on disk ──► Mapping
//	Open ──► records on disk ──► ranges in use       (an agent restart)
//	Release(pod) ──► record removed ──► range free
//
// A range belongs to one pod at a time. It is on disk before it is used, so that a crash
// never makes two pods share users.
package userns
