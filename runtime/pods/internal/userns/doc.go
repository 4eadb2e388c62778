// Package userns hands out ranges of user IDs to pods with a user namespace of
// their own (spec/runtime.md 3.7).
//
//	Acquire(pod) ──► free range ──► record on disk ──► Mapping
//	Open ──► records on disk ──► ranges in use       (an agent restart)
//	Release(pod) ──► record removed ──► range free
//
// A range belongs to one pod at a time. It is written to disk before anybody
// learns of it, so that no crash makes two pods share users.
package userns
