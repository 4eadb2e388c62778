// Package checkpointtest has disks for tests of checkpoints (one in memory that loses power, and a
// wrapper around any other that fails or ends the process at a chosen operation) and a store
// without a disk.
//
//	Files ──► Points (numbers, fails, kills) ──► Disk (memory) or checkpoint.Dir
package checkpointtest
