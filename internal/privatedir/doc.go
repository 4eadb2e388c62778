// Package privatedir tells whether a folder is its user's alone: whether others could change
// what is in it, or put another folder in its place (spec/cleanup.md RD1).
package privatedir
