// Package elapsed compares moments on machines that may be suspended: the monotonic clock, which Go
// compares if both moments have it, stops meanwhile; the wall clock may be set.
package elapsed
