package timing

import (
	cryptorand "crypto/rand"
	"math/rand/v2"
)

// Jitter returns a source of numbers in [0, 1), for delays that must not fall together. It is the
// caller's own, seeded by the operating system, and must not be called from two goroutines at once.
func Jitter() func() float64 {
	var seed [32]byte
	_, _ = cryptorand.Read(seed[:]) // never fails, by its contract
	return rand.New(rand.NewChaCha8(seed)).Float64
}
