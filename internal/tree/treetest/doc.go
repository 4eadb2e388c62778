// Package treetest makes trees of folders deeper than a path can be long.
package treetest
