// Package patience is how long a test of the real thing waits before it calls
// something lost.
//
//	limit of an idle machine ──► Of ──► × PODWRIGHT_PATIENCE ──► deadline
//
// Tests in virtual time need none of this. Those on a real containerd, a real API
// server or with processes of their own do: their limits tell "it waits for something it
// must not wait for" from "it is under way", and how far under way things are depends
// on who else uses the machine. The limits in the tests are those of an idle machine. Whoever
// runs the whole suite at once, on a machine that others may use too, sets
// PODWRIGHT_PATIENCE to how many times as long a test may wait, as tools/ci/test.sh does.
// How fast things are is never judged by these limits: that is what benchmarks are for.
package patience
