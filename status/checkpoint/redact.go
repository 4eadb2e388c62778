package checkpoint

import (
	v1 "k8s.io/api/core/v1"
)

// hidden replaces a value that may be a secret.
const hidden = "(hidden)"

// Redacted returns a copy that may be shown, without what may be a secret: in the desired pod, the
// values of environment variables and of headers of probes and hooks, commands and arguments, and
// annotations; and the messages of containers.
func (r *Record) Redacted() *Record {
	c := cutMessages(r, 0)
	if r.Pod != nil {
		c.Pod = RedactedPod(r.Pod)
	}
	return c
}

// RedactedPod returns a copy of a pod that may be shown, without what may be a secret in its spec
// and annotations, as in [Record.Redacted]. Its status is unchanged.
func RedactedPod(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	for k := range pod.Annotations {
		pod.Annotations[k] = hidden
	}
	for _, list := range [...][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			redact(&list[i])
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		redact((*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return pod
}

func redact(c *v1.Container) {
	hide(c.Command)
	hide(c.Args)
	for i := range c.Env {
		if c.Env[i].Value != "" {
			c.Env[i].Value = hidden
		}
	}
	for _, p := range [...]*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p != nil {
			redactAction(p.Exec, p.HTTPGet)
		}
	}
	if c.Lifecycle == nil {
		return
	}
	for _, h := range [...]*v1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if h != nil {
			redactAction(h.Exec, h.HTTPGet)
		}
	}
}

func redactAction(exec *v1.ExecAction, get *v1.HTTPGetAction) {
	if exec != nil {
		hide(exec.Command)
	}
	if get == nil {
		return
	}
	for i := range get.HTTPHeaders {
		get.HTTPHeaders[i].Value = hidden
	}
	if get.Path != "" {
		get.Path = hidden
	}
}

func hide(words []string) {
	for i := range words {
		words[i] = hidden
	}
}
