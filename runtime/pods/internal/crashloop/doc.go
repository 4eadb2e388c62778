// Package crashloop decides how long a container that has exited must wait before
// it runs again (spec/runtime.md 17). It is a table of delays; time comes in as
// a value, so it has no clock. A [Table] is not safe for concurrent use.
//
//	exited record, now ──► Check ──► start now, delay grown
//	                            └──► wait until …
package crashloop
