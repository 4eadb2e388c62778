package source

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// unused refuses fields that would have no effect in a container of this list (FD1).
func (v *validator) unused(c *v1.Container, list string, p *field.Path) {
	refuse := func(name string, set bool, why string) {
		if set {
			v.add(field.Forbidden(p.Child(name), why))
		}
	}
	switch {
	case list == fieldEphemeral:
		const why = "an ephemeral container cannot have it"
		refuse("ports", len(c.Ports) > 0, why)
		refuse("resources", len(c.Resources.Limits)+len(c.Resources.Requests)+len(c.Resources.Claims) > 0, why)
		refuse("resizePolicy", len(c.ResizePolicy) > 0, why)
		refuse("restartPolicy", c.RestartPolicy != nil, why)
		refuse("restartPolicyRules", len(c.RestartPolicyRules) > 0, why)
		refuse("livenessProbe", c.LivenessProbe != nil, why)
		refuse("readinessProbe", c.ReadinessProbe != nil, why)
		refuse("startupProbe", c.StartupProbe != nil, why)
		refuse("lifecycle", c.Lifecycle != nil, why)
	case list == fieldInit && (c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways):
		const why = "only an init container with restartPolicy Always can have it"
		refuse("livenessProbe", c.LivenessProbe != nil, why)
		refuse("readinessProbe", c.ReadinessProbe != nil, why)
		refuse("startupProbe", c.StartupProbe != nil, why)
		refuse("lifecycle", c.Lifecycle != nil && (c.Lifecycle.PostStart != nil || c.Lifecycle.PreStop != nil), why)
	}
}
