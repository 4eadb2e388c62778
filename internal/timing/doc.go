// Package timing gives contexts a time limit on an injected clock, waits on one ([Sleep]), makes seconds durations, and bounds how long calls
// that may hang hold up others ([Batch]).
//
// context.WithTimeout counts the machine's time, also in a program whose clock is
// virtual. Everything in the module that limits a call by time uses [WithTimeout]
// instead.
package timing
