// Package dirlock keeps two engines off one folder, and tells which engine holds another: an advisory lock on a file in
// it, which the kernel releases when the process ends.
package dirlock
