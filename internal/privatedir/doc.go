// Package privatedir tells whether a folder, or a file, is its user's alone: whether others could change
// what is in it, or put another folder in its place (spec/cleanup.md RD1).
package privatedir
