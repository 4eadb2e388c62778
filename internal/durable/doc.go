// Package durable replaces and removes small files so that a crash never leaves half of one. A file
// is written under a temporary name in the same folder, synced and renamed, then the folder is
// synced: once the call has returned nil, the result also survives a loss of power.
//
// It reads small files too: at most as much as the caller allows, and never from a pipe, which would block.
//
// It is for files written one at a time. The store of checkpoints groups the syncs of many files
// and has its own steps.
package durable
