// Package dirlock keeps two engines from using one folder, and tells which engine holds a folder, and whose pods it has. It
// uses advisory locks on a file in the folder and on the folder itself, which the kernel releases
// when the process ends.
package dirlock
