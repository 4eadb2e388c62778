// Package patience determines how long a test of the real thing waits before it gives up.
//
//	limit of an idle machine ──► Of ──► × PODWRIGHT_PATIENCE ──► deadline
//
// Tests in virtual time need none of this. Tests on a real containerd, a real API server or with
// processes of their own do: their limits must tell "it waits for something it must not wait for"
// from "it is still in progress", and how long things take depends on what else the machine does.
// The limits in the tests are those of an idle machine. To run the whole suite at once, or on a
// shared machine, set PODWRIGHT_PATIENCE to the factor by which tests may wait longer, as
// tools/ci/test.sh does. These limits never judge how fast things are: that is what benchmarks are
// for. Within and Until wait for what no event tells.
package patience
