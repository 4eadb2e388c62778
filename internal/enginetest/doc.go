// Package enginetest holds the tests of the whole engine: pods' lives, restarts, crashes at every
// operation, faults of the runtime, the sources and the disk, leaks. They use only the exported
// API, with the fake runtime in virtual time. The package itself has no code.
package enginetest
