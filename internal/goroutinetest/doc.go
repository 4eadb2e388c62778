// Package goroutinetest counts goroutines in tests.
package goroutinetest
