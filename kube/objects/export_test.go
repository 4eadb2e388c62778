package objects

// ErrRunning is the error of a second Run.
var ErrRunning = errRunning
