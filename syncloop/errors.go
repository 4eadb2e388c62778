package syncloop

import "errors"

// ErrRunning is returned by [Loop.Run] when the loop runs or has run already.
var ErrRunning = errors.New("the loop runs, or has run, already")
