// Package timing gives contexts a time limit on an injected clock, waits on a clock ([Sleep]) and for a moment ([Alarm]),
// turns seconds into durations, spreads delays ([Jitter]), and bounds how long calls that may hang hold
// up others ([Batch]).
//
// context.WithTimeout uses the machine's time even in a program whose clock is virtual. Everything
// in the module that limits a call by time uses [WithTimeout] instead.
package timing
