//go:build race

package statussink

// crowd is the size of a large crowd: the feed of the tests brings all pods at each change.
const crowd = 300
