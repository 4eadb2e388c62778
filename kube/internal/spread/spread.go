package spread

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// Out returns a pause that begins now, lengthened by up to a fifth. It is never shorter, because an API
// server may have asked for it. How much is added follows from who waits and from the moment, in
// nanoseconds, so it needs no source of randomness, and a test in virtual time can be repeated.
func Out(pause time.Duration, who string, now time.Time) time.Duration {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", who, now.UnixNano()))
	chance := float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32)
	return pause + time.Duration(chance*float64(Most(pause)-pause))
}

// Most returns the longest that Out makes of a pause.
func Most(pause time.Duration) time.Duration { return pause + pause/5 }
