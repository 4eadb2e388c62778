package podworkers

// Of returns the options with a place for the outcome. The workers fill it in before they close the
// channel.
func (k KillOptions) Of(outcome *KillOutcome) KillOptions {
	k.outcome = outcome
	return k
}

// ErrRunning is the error that a second Run returns.
var ErrRunning = errRunning
