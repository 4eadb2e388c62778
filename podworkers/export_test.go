package podworkers

// Of returns the options with a place for the outcome, which is filled in before the
// channel is closed.
func (k KillOptions) Of(outcome *KillOutcome) KillOptions {
	k.outcome = outcome
	return k
}

// ErrRunning is the error of a second Run.
var ErrRunning = errRunning
