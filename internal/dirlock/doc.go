// Package dirlock keeps two engines off one folder: an advisory lock on a file in
// it, which the kernel drops when the process ends, however it ends.
package dirlock
