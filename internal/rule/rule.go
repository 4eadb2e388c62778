package rule

// Rule is the name of a rule of docs/spec.
type Rule string

// The rules that keep something, each with what it keeps.
const (
	SourcesUnseen Rule = "SG1"  // everything, until every source has been seen
	InUse         Rule = "ND2"  // what a desired, known, running or possibly wanted pod has
	LastRecord    Rule = "ND3"  // the newest dead container of its name
	SandboxInUse  Rule = "ND4"  // a sandbox that containers or a living pod need
	ImageInUse    Rule = "ND5"  // an image that is used or pinned
	VolumesLeft   Rule = "ND6"  // a cgroup whose pod still has volumes
	StillStopping Rule = "ND7"  // a mirror pod whose static pod is being terminated
	ListFailed    Rule = "ND11" // what is judged by a list of the runtime that failed
	SandboxReady  Rule = "HI6"  // a ready sandbox
	NotStartedYet Rule = "CG2"  // a container that may be about to start
	WithinLimits  Rule = "CG1"  // dead containers that the limits allow
	TooYoung      Rule = "IG1"  // an image first seen a short time ago
	EnoughRoom    Rule = "IG5"  // unused images on a disk with enough room
	MaybeMounted  Rule = "OD2"  // a folder below which something is or may be mounted
	VolumeData    Rule = "OD9"  // a folder with left-over data of a volume
	TryLater      Rule = "OD10" // what failed a short time ago, or no longer fits into a pass
	SetupHeld     Rule = "B2"   // a pod that must not be set up now
	Changed       Rule = "DR1"  // a pod that changed after the plan was made
	Vetoed        Rule = "DR5"  // what the host objected to
	RateLimited   Rule = "DR6"  // what exceeds the rate of removals
)

// Because returns a denial by the rule, for this reason.
func (r Rule) Because(why string) Denial { return Denial{Rule: r, Why: why} }

// Denial says which rule forbids something, and why. The zero value denies nothing.
type Denial struct {
	Rule Rule
	Why  string
}

// IsZero reports whether nothing is denied.
func (d Denial) IsZero() bool { return d == Denial{} }

// String returns the rule's name, a colon and the reason.
func (d Denial) String() string {
	if d.Rule == "" || d.Why == "" {
		return string(d.Rule) + d.Why
	}
	return string(d.Rule) + ": " + d.Why
}

// MarshalText returns String.
func (d Denial) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
