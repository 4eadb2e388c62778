// Package elapsedtest has the clock of a machine that was suspended.
package elapsedtest
