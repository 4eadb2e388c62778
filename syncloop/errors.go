package syncloop

import "errors"

// errRunning is returned by [Loop.Run] when the loop runs or has run already.
var errRunning = errors.New("the loop runs, or has run, already")
