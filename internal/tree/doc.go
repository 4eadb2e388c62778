// Package tree removes and walks folders that a pod could write: trees of any depth and
// width, with names longer than any path, which may change meanwhile.
//
// Both open each folder relative to the one above it, follow no link, and hold a fixed number
// of descriptors and, but for a few bytes per level of a walk, a fixed amount of memory.
// [Remove] renames what is very deep to the top of the tree it removes, so nothing else is
// needed on the disk; [Walker] changes nothing and climbs back by "..", which it trusts only if that
// is the folder it came from.
package tree
