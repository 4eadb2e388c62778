package proberesult

// Result is what probing knows of one container for one kind of probe.
type Result uint8

// Results.
const (
	// Unknown: the container has a probe that has given no clear answer yet.
	Unknown Result = iota
	Success
	Failure
	// None: the container has no probe of that kind.
	None
)

// String returns the result as logs and explanations show it.
func (r Result) String() string {
	switch r {
	case Success:
		return "Success"
	case Failure:
		return "Failure"
	case None:
		return "None"
	default:
		return "Unknown"
	}
}
