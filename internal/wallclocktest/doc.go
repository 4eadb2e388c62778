// Package wallclocktest has a clock for tests that can be set, like the one on the wall.
package wallclocktest
