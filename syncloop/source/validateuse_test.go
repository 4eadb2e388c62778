package source

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// TestNoPartOfAFieldIsWithoutEffect: FD1, D8: rules, values and times that would count for nothing are refused at their field; what
// an API server accepts is not.
func TestNoPartOfAFieldIsWithoutEffect(t *testing.T) {
	of := func(edit func(*v1.Container)) *v1.Pod {
		p := valid(func(p *v1.Pod) { edit(&p.Spec.Containers[0]) })
		Default(p)
		return p
	}
	rules := func(policy *v1.ContainerRestartPolicy, rules ...v1.ContainerRestartRule) *v1.Pod {
		return of(func(c *v1.Container) { c.RestartPolicy, c.RestartPolicyRules = policy, rules })
	}
	on := func(operator v1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) *v1.ContainerRestartRuleOnExitCodes {
		return &v1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: codes}
	}
	grpc := func(mode string) *v1.Pod {
		return of(func(c *v1.Container) {
			c.LivenessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 9000, Mode: ptr.To(v1.GRPCProbeMode(mode))}}}
		})
	}
	get := func(scheme v1.URIScheme, host, protocol string) *v1.Pod {
		return of(func(c *v1.Container) {
			c.LivenessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{
				Port: intstr.FromInt32(80), Scheme: scheme, Host: host, Protocol: ptr.To(v1.HTTPProtocol(protocol)),
			}}}
		})
	}
	grace := func(field func(*v1.Container) **v1.Probe) *v1.Pod {
		return of(func(c *v1.Container) {
			*field(c) = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}, TerminationGracePeriodSeconds: ptr.To[int64](5)}
		})
	}
	never, restart := ptr.To(v1.ContainerRestartPolicyNever), v1.ContainerRestartRuleActionRestart
	const c, rule = "spec.containers[0].", "spec.containers[0].restartPolicyRules[0]."
	for want, pod := range map[string]*v1.Pod{
		c + "restartPolicy: Required":                      rules(nil, v1.ContainerRestartRule{Action: restart, ExitCodes: on("In", 42)}),
		rule + "action: Unsupported":                       rules(never, v1.ContainerRestartRule{Action: "restart", ExitCodes: on("In", 42)}),
		rule + "exitCodes: Required":                       rules(never, v1.ContainerRestartRule{Action: restart}),
		rule + "exitCodes.operator: Unsupported":           rules(never, v1.ContainerRestartRule{Action: restart, ExitCodes: on("in", 42)}),
		c + "livenessProbe.grpc.mode: Unsupported":         grpc("tls"),
		c + "livenessProbe.httpGet.protocol: Unsupported":  get("", "", "http2"),
		c + "livenessProbe.httpGet.protocol: Forbidden":    get(v1.URISchemeHTTPS, "", "HTTP2"),
		c + "livenessProbe.httpGet.protocol: Forbidden: H": get("", "example.com", "HTTP2"),
		c + "readinessProbe.terminationGracePeriodSeconds": grace(func(c *v1.Container) **v1.Probe { return &c.ReadinessProbe }),
	} {
		if got := Validate(pod); len(got) != 1 || !contains(got[0].Error(), want) {
			t.Errorf("%v, want one error with %q", got, want)
		}
	}
	for name, pod := range map[string]*v1.Pod{
		"rules": rules(never, v1.ContainerRestartRule{Action: restart, ExitCodes: on("In")},
			v1.ContainerRestartRule{Action: v1.ContainerRestartRuleActionRestartAllContainers, ExitCodes: on("NotIn", 0)}),
		"rules beside Always": rules(ptr.To(v1.ContainerRestartPolicyAlways), v1.ContainerRestartRule{Action: restart, ExitCodes: on("In", 42)}),
		"no rules":            rules(never),
		"TLS":                 grpc("TLS"), "plaintext": grpc("Plaintext"), "no mode": grpc(""),
		"HTTP/2": get(v1.URISchemeHTTP, "", "HTTP2"), "HTTP/1": get(v1.URISchemeHTTPS, "example.com", "HTTP1"), "no protocol": get(v1.URISchemeHTTPS, "example.com", ""),
		"startup":  grace(func(c *v1.Container) **v1.Probe { return &c.StartupProbe }),
		"liveness": grace(func(c *v1.Container) **v1.Probe { return &c.LivenessProbe }),
	} {
		if got := Validate(pod); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}
