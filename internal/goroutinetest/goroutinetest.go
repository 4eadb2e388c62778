package goroutinetest

import (
	"runtime"
	"strings"
)

// Count returns how many goroutines run code of a package, given by the end of its import path.
// Unlike runtime.NumGoroutine it leaves out goroutines that are about to end, and those of other
// packages.
func Count(path string) int {
	stacks := make([]byte, 64<<10)
	for {
		n := runtime.Stack(stacks, true)
		if n < len(stacks) {
			stacks = stacks[:n]
			break
		}
		stacks = make([]byte, 2*len(stacks))
	}
	count := 0
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		// A method is path.(*Type).Name, a function path.Name, a test of it path_test.Name.
		if strings.Contains(stack, path+".") {
			count++
		}
	}
	return count
}
