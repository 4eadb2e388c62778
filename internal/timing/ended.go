package timing

// Ended reports whether a channel is closed that carries nothing, as those are which tell an end.
func Ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
