// Package treetest makes trees of folders that are deeper than a path may be long.
package treetest
