package pods

import "time"

// Action is one thing a sync did or tried (spec/runtime.md 7.3).
type Action struct {
	// Step names what was done: KillPod, KillContainer, RemoveContainer,
	// CreateSandbox, StartContainer, ResizePod.
	Step string
	// Target is the container's name, or the pod's for pod-level steps.
	Target string
	// Reason is why, or the error's reason (spec/runtime.md 22.1) if Err is set.
	Reason string
	// Message says more, for a reader.
	Message string
	// Err is nil if the action succeeded.
	Err error
	// RetryAt is when a back-off that holds the container ends, zero if none does.
	RetryAt time.Time
}

// Steps of an [Action].
const (
	stepKillPod         = "KillPod"
	stepKillContainer   = "KillContainer"
	stepRemoveContainer = "RemoveContainer"
	stepCreateSandbox   = "CreateSandbox"
	stepStartContainer  = "StartContainer"
	stepResizePod       = "ResizePod"
)

// Result is the outcome of one [Manager.SyncPod].
type Result struct {
	// Actions in the order they were taken. Empty: nothing was to be done.
	Actions []Action
	// Err joins all errors. A container held back by a back-off is one of them.
	Err error
	// Acted is true if the runtime was asked to change anything, successfully
	// or not: the pod's status should be read again.
	Acted bool
	// RetryAt is when another sync makes sense: at the earliest end of a back-off, or soon after
	// a pull that failed, to show its back-off. Zero: there is neither.
	RetryAt time.Time
	// Again is true if another sync should follow at once: the pod was reset
	// (spec/runtime.md 6.9).
	Again bool
}

// Waiting is why a container is not running.
type Waiting struct {
	// Reason, Message and RetryAt are those of the last attempt, as in [Action].
	Reason  string
	Message string
	RetryAt time.Time
}

// Reasons of failed actions, and of containers that wait for a volume (spec/runtime.md 22.1).
const (
	reasonContainerCreating          = "ContainerCreating"
	reasonPodInitializing            = "PodInitializing"
	reasonCrashLoopBackOff           = "CrashLoopBackOff"
	reasonCreateContainerConfigError = "CreateContainerConfigError"
	reasonCreateContainerError       = "CreateContainerError"
	reasonRunContainerError          = "RunContainerError"
	reasonPostStartHookError         = "PostStartHookError"
	reasonCreatePodSandboxError      = "CreatePodSandboxError"
	reasonConfigPodSandboxError      = "ConfigPodSandboxError"
	reasonKillPodSandboxError        = "KillPodSandboxError"
	reasonKillContainerError         = "KillContainerError"
	reasonRemoveContainerError       = "RemoveContainerError"
	reasonResizePodInPlaceError      = "ResizePodInPlaceError"
)
