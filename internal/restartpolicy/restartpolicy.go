package restartpolicy

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Decision says what follows an exit.
type Decision uint8

// Decisions.
const (
	// Stay: the container does not run again.
	Stay Decision = iota
	// Restart: the container runs again.
	Restart
	// RestartAll: every container of the pod runs again.
	RestartAll
)

// Reasons that runtimes give for the end of a container.
const (
	// OOMKilled: the kernel killed it for its memory use.
	OOMKilled = "OOMKilled"
	// StartError: it could not be started.
	StartError = "StartError"
)

// IsSidecar reports whether an init container is restartable: it starts in init
// order, then runs alongside the app containers.
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// Effective returns the policy that governs c, a container of pod: its own if it
// has one, otherwise the pod's, Always if neither is set.
func Effective(pod *v1.Pod, c *v1.Container) v1.RestartPolicy {
	if c.RestartPolicy != nil && *c.RestartPolicy != "" {
		return v1.RestartPolicy(*c.RestartPolicy)
	}
	if pod.Spec.RestartPolicy == "" {
		return v1.RestartPolicyAlways
	}
	return pod.Spec.RestartPolicy
}

// AtMostOnce reports whether a container of the pod must not run a second time once it may have
// run: its policy, or that of the pod, is Never.
func AtMostOnce(pod *v1.Pod) bool {
	if pod.Spec.RestartPolicy == v1.RestartPolicyNever {
		return true
	}
	for _, list := range [...][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if Effective(pod, &list[i]) == v1.RestartPolicyNever {
				return true
			}
		}
	}
	return false
}

// OnExit decides for a container that exited with code.
func OnExit(pod *v1.Pod, c *v1.Container, code int32) Decision {
	if c.RestartPolicy != nil && *c.RestartPolicy != "" {
		for i := range c.RestartPolicyRules {
			rule := &c.RestartPolicyRules[i]
			if !matches(rule.ExitCodes, code) {
				continue
			}
			switch rule.Action {
			case v1.ContainerRestartRuleActionRestart:
				return Restart
			case v1.ContainerRestartRuleActionRestartAllContainers:
				return RestartAll
			}
		}
	}
	switch Effective(pod, c) {
	case v1.RestartPolicyAlways:
		return Restart
	case v1.RestartPolicyOnFailure:
		if code != 0 {
			return Restart
		}
	}
	return Stay
}

// InitFailed reports whether an init container that exited like this has failed: the kernel's kill
// is a failure whatever the code.
func InitFailed(code int32, reason string) bool { return code != 0 || reason == OOMKilled }

// InitDone reports whether an init container in this state has ended and done its work.
func InitDone(state *v1.ContainerState) bool {
	end := state.Terminated
	return end != nil && !InitFailed(end.ExitCode, end.Reason)
}

// OnInitExit decides for an init container that exited with code and the runtime's reason.
func OnInitExit(pod *v1.Pod, c *v1.Container, code int32, reason string) Decision {
	decision := OnExit(pod, c, code)
	if decision == Stay && InitFailed(code, reason) && Effective(pod, c) == v1.RestartPolicyOnFailure {
		return Restart // code 0 is no success
	}
	return decision
}

// matches reports whether code is in a rule's list. A missing list matches no code.
func matches(codes *v1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if codes == nil {
		return false
	}
	listed := slices.Contains(codes.Values, code)
	switch codes.Operator {
	case v1.ContainerRestartRuleOnExitCodesOpIn:
		return listed
	case v1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !listed
	}
	return false
}

// RestartsAll reports whether some exit of some container restarts the whole pod, including
// containers that had ended for good.
func RestartsAll(spec *v1.PodSpec) bool {
	for _, list := range [...][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if MayRestartAll(&list[i]) {
				return true
			}
		}
	}
	return false
}

// MayRestartAll reports whether some exit of c restarts the whole pod.
func MayRestartAll(c *v1.Container) bool {
	return slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
		return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
	})
}
