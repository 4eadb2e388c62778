package runtimetest_test

import (
	"fmt"
	"strings"

	"github.com/podwright/podwright/runtime/runtimetest"
)

// The shell script of a program that prints a line and fails.
func ExampleShell() {
	argv := runtimetest.Shell("/bin/busybox", "sh")(runtimetest.Program{Stdout: []string{"it's me"}, Exit: 3})
	fmt.Println(strings.Join(argv[:3], " "))
	fmt.Print(argv[3])
	// Output:
	// /bin/busybox sh -c
	// trap 'kill -9 $! 2>/dev/null; exit 0' TERM
	// printf '%s\n' 'it'\''s me'
	// exit 3
}

// The groups of the suite.
func ExampleCases() {
	var groups []string
	seen := map[string]int{}
	for _, c := range runtimetest.Cases() {
		group, _, _ := strings.Cut(c.Name, "/")
		if seen[group] == 0 {
			groups = append(groups, group)
		}
		seen[group]++
	}
	fmt.Println(groups)
	// Output: [runtime sandbox container stop exec log image resources concurrent event]
}
