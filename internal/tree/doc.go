// Package tree removes and walks folders that a pod could write to: trees of any depth and width,
// with names longer than any path, which may change meanwhile.
//
// Both open each folder relative to the one above it, follow no links, and use a fixed number of
// descriptors and a fixed amount of memory (except for a few bytes per level of a walk). [Remove]
// renames very deep folders to the top of the tree it removes, so it needs no other disk space;
// [Walker] changes nothing and climbs back through "..", which it trusts only if that is the folder
// it came from.
package tree
