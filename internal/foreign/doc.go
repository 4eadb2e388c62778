// Package foreign calls code that the engine does not own: functions of the program that embeds it,
// and the container runtime. The code may panic or never return; neither harms more than the caller
// it was called for, and both are listed as problems (IN6).
//
//	Watch    the caller's goroutine makes the call: it is listed while it takes too long
//	Contain  the same, and a panic becomes an error
//	Ask      a separate goroutine makes the call, and the caller can continue without an
//	         answer. There is one call per subject at a time, however long it takes
//	Quick    the same for a caller with others to serve: it waits only for a moment, and a
//	         late answer is given to the next caller that asks
//	Leave    the end of a run waits some seconds for what is still being called
package foreign
