//go:build !race

package machine

const (
	defaultDepth = 8
	defaultOne   = 0 // to the end
)
