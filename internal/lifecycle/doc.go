// Package lifecycle starts the components of an engine in one order and stops them in another.
package lifecycle
