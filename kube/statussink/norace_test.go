//go:build !race

package statussink

// crowd is the size of a large crowd.
const crowd = 1000
