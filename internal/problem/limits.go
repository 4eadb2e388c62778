package problem

import "time"

// How long things may take before they are problems. Each limit is longer than the thing takes on a
// slow but healthy machine, so that a problem is worth a look.
const (
	// CallLimit is for calls of the runtime: calls that start something take a second or two, and a
	// call without an answer for 10 s counts as waiting (IN1).
	CallLimit = 10 * time.Second
	// PullLimit is for pulls: a large image takes minutes, but rarely more than a minute per layer.
	PullLimit = 2 * time.Minute
	// SetupLimit is for SyncPod: it may wait for a pull and a postStart hook.
	SetupLimit = 3 * time.Minute
	// StopLimit is for stops, in addition to the grace period, which they may use up.
	StopLimit = 20 * time.Second
	// GateLimit is for pods to be set up while setup is not allowed: a container runtime restarts
	// within seconds.
	GateLimit = 30 * time.Second
	// TurnLimit is for calls that wait for their turn: a burst of pods on a slow machine.
	TurnLimit = time.Minute
	// CleanupLimit is for the steps after the containers have stopped.
	CleanupLimit = 30 * time.Second
	// FunctionLimit is for functions of the program that embeds the engine (IN6).
	FunctionLimit = 10 * time.Second
	// CredentialsLimit is for credentials of registries: a credential plugin may take a minute.
	CredentialsLimit = 70 * time.Second
	// HookLimit is for hooks of the node, which talk to an API server.
	HookLimit = 30 * time.Second
	// RemovalLimit is for removing a folder, log or volume, in bounded steps (IN12).
	RemovalLimit = 30 * time.Second
	// SourceLimit is for the first answer of a source: an API's list takes seconds.
	SourceLimit = 30 * time.Second
	// SendLimit is for a status on its way to a sink.
	SendLimit = 10 * time.Second
	// RecordLimit is for a record on its way to the disk: a sync of a busy disk takes
	// seconds.
	RecordLimit = 10 * time.Second
	// LoopLimit is for one iteration of the sync loop, which waits for nothing outside.
	LoopLimit = 10 * time.Second
	// PassLimit is for a housekeeping pass, which spends some seconds at most on removals.
	PassLimit = time.Minute
	// RecoveryLimit is for the start: reading a thousand records takes a second.
	RecoveryLimit = 30 * time.Second
	// EndLimit is for one component to end after it was told to.
	EndLimit = 30 * time.Second
)
