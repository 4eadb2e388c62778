// Package dirlock keeps two engines from using one folder, and tells which engine holds a folder. It
// uses an advisory lock on a file in the folder, which the kernel releases when the process ends.
package dirlock
