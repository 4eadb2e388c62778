package admission

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Reasons of [Able].
const (
	reasonAppArmor = "AppArmor"
	reasonGroups   = "SupplementalGroupsPolicyNotSupported"
)

// Abilities are the features that only some nodes have.
type Abilities struct {
	// StrictGroups reports whether the runtime honours supplementalGroupsPolicy Strict. It
	// must not block. Nil: it does not.
	StrictGroups func() bool
	// AppArmor: the kernel enforces AppArmor profiles.
	AppArmor bool
	// HTTP2 and GRPCTLS: probes that ask for HTTP/2, or for gRPC over TLS, can use it.
	HTTP2, GRPCTLS bool
}

// Able refuses a pod that asks for something that this node cannot do, because the pod would
// otherwise run without it (FD2): resource claims, owners of single files of volumes, and missing
// abilities.
func Able(a Abilities) Handler {
	return HandlerFunc(func(r Request) Verdict {
		spec := &r.Pod.Spec
		if why := claimed(spec); why != "" {
			return Refuse(ReasonUnexpected, "%s: no driver on this node serves resource claims", why)
		}
		if why := ownedFiles(spec); why != "" {
			return Refuse(ReasonUnexpected, "%s: this node does not give single files of a volume to a user; use runAsUser and fsGroup", why)
		}
		if sc := spec.SecurityContext; sc != nil && sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict &&
			(a.StrictGroups == nil || !a.StrictGroups()) {
			return Refuse(reasonGroups, "SupplementalGroupsPolicy=Strict is not supported in this node: the container runtime does not offer it")
		}
		if why := confined(spec); why != "" && !a.AppArmor {
			return Refuse(reasonAppArmor, "Cannot enforce AppArmor: the kernel of this node has it not enabled, and %s asks for a profile", why)
		}
		if why := a.probes(spec); why != "" {
			return Refuse(ReasonUnexpected, "%s", why)
		}
		return Verdict{}
	})
}

// eachOf calls f for each container with its path.
func eachOf(spec *v1.PodSpec, f func(c *v1.Container, path string)) {
	for i := range spec.InitContainers {
		f(&spec.InitContainers[i], fmt.Sprintf("spec.initContainers[%d]", i))
	}
	for i := range spec.Containers {
		f(&spec.Containers[i], fmt.Sprintf("spec.containers[%d]", i))
	}
	for i := range spec.EphemeralContainers {
		f((*v1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon), fmt.Sprintf("spec.ephemeralContainers[%d]", i))
	}
}

// claimed returns the field that asks for a resource claim.
func claimed(spec *v1.PodSpec) (path string) {
	eachOf(spec, func(c *v1.Container, p string) {
		if len(c.Resources.Claims) > 0 {
			path = p + ".resources.claims"
		}
	})
	switch {
	case len(spec.ResourceClaims) > 0:
		return "spec.resourceClaims"
	case spec.Resources != nil && len(spec.Resources.Claims) > 0:
		return "spec.resources.claims"
	}
	return path
}

// ownedFiles returns the field that gives files of a volume to a user.
func ownedFiles(spec *v1.PodSpec) (path string) {
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		var all []*int64
		items := func(list []v1.KeyToPath) {
			for j := range list {
				all = append(all, list[j].User)
			}
		}
		downward := func(list []v1.DownwardAPIVolumeFile) {
			for j := range list {
				all = append(all, list[j].User)
			}
		}
		switch {
		case v.ConfigMap != nil:
			all = append(all, v.ConfigMap.DefaultUser)
			items(v.ConfigMap.Items)
		case v.Secret != nil:
			all = append(all, v.Secret.DefaultUser)
			items(v.Secret.Items)
		case v.DownwardAPI != nil:
			all = append(all, v.DownwardAPI.DefaultUser)
			downward(v.DownwardAPI.Items)
		case v.Projected != nil:
			all = append(all, v.Projected.DefaultUser)
			for _, s := range v.Projected.Sources {
				switch {
				case s.ServiceAccountToken != nil:
					all = append(all, s.ServiceAccountToken.User)
				case s.ClusterTrustBundle != nil:
					all = append(all, s.ClusterTrustBundle.User)
				case s.PodCertificate != nil:
					all = append(all, s.PodCertificate.User)
				case s.ConfigMap != nil:
					items(s.ConfigMap.Items)
				case s.Secret != nil:
					items(s.Secret.Items)
				case s.DownwardAPI != nil:
					downward(s.DownwardAPI.Items)
				}
			}
		}
		for _, user := range all {
			if user != nil {
				path = fmt.Sprintf("spec.volumes[%d]: user or defaultUser", i)
			}
		}
	}
	return path
}

// confined returns the field that asks for an AppArmor profile.
func confined(spec *v1.PodSpec) (path string) {
	asks := func(p *v1.AppArmorProfile) bool { return p != nil && p.Type != v1.AppArmorProfileTypeUnconfined }
	if sc := spec.SecurityContext; sc != nil && asks(sc.AppArmorProfile) {
		return "spec.securityContext"
	}
	eachOf(spec, func(c *v1.Container, p string) {
		if c.SecurityContext != nil && asks(c.SecurityContext.AppArmorProfile) {
			path = p + ".securityContext"
		}
	})
	return path
}

// probes returns why a probe cannot run as specified.
func (a Abilities) probes(spec *v1.PodSpec) (why string) {
	eachOf(spec, func(c *v1.Container, path string) {
		for _, p := range []struct {
			name  string
			probe *v1.Probe
		}{{"livenessProbe", c.LivenessProbe}, {"readinessProbe", c.ReadinessProbe}, {"startupProbe", c.StartupProbe}} {
			if p.probe == nil {
				continue
			}
			if h := p.probe.HTTPGet; !a.HTTP2 && h != nil && h.Protocol != nil && *h.Protocol == v1.HTTPProtocolHTTP2 {
				why = fmt.Sprintf("%s.%s.httpGet.protocol HTTP2 is switched off on this node (Config.Probes.HTTP2)", path, p.name)
			}
			if g := p.probe.GRPC; !a.GRPCTLS && g != nil && g.Mode != nil && *g.Mode == v1.GRPCProbeModeTLS {
				why = fmt.Sprintf("%s.%s.grpc.mode TLS is switched off on this node (Config.Probes.GRPCTLS)", path, p.name)
			}
		}
	})
	return why
}
