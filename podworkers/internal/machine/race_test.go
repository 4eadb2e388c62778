//go:build race

package machine

// The race detector makes exploring about five times slower, and there is no
// goroutine in the machine for it to watch: pairs go less deep.
const (
	defaultDepth = 6
	defaultOne   = 9
)
