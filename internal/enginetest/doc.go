// Package enginetest holds the tests of the whole engine: pods' lives, restarts, crashes at every
// operation, faults of the runtime, the sources and the disk, leaks. They use the exported API only,
// with the fake runtime in virtual time. The package has no code of its own.
package enginetest
