package runtime

import "sync/atomic"

// Stamp orders observations and calls within one engine. A larger stamp was
// drawn later. The zero Stamp is older than every drawn one.
type Stamp uint64

// Sequence draws stamps. The zero value is ready to use; all methods are safe
// for concurrent use. A Sequence must not be copied after first use.
type Sequence struct {
	last atomic.Uint64
}

// Next returns a stamp greater than every stamp drawn before the call.
func (s *Sequence) Next() Stamp {
	return Stamp(s.last.Add(1))
}
