package timing

// Ended reports whether a channel is closed. The channel must carry no values and only be closed, to signal an end.
func Ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
