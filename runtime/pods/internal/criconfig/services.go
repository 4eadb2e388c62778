package criconfig

import (
	"net"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// apiService is the one service that every pod is told about.
const (
	apiService          = "kubernetes"
	apiServiceNamespace = v1.NamespaceDefault
)

// ServiceVariables returns the variables with the addresses of services, sorted by the
// services' names (spec/runtime.md 11.8). Services without an address have none.
// Services of other namespaces are left out; so are all but the API server's if the pod
// does not want them.
func ServiceVariables(pod *v1.Pod, services []*v1.Service) []Variable {
	links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
	chosen := map[string]*v1.Service{}
	for _, s := range services {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == v1.ClusterIPNone || len(s.Spec.Ports) == 0 {
			continue
		}
		own := links && s.Namespace == pod.Namespace
		if own || (s.Namespace == apiServiceNamespace && s.Name == apiService && chosen[s.Name] == nil) {
			chosen[s.Name] = s
		}
	}
	names := make([]string, 0, len(chosen))
	for name := range chosen {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []Variable
	for _, name := range names {
		out = append(out, variablesOf(chosen[name])...)
	}
	return out
}

func variablesOf(s *v1.Service) []Variable {
	prefix := upper(s.Name)
	ip := s.Spec.ClusterIP
	out := []Variable{
		{prefix + "_SERVICE_HOST", ip},
		{prefix + "_SERVICE_PORT", number(s.Spec.Ports[0].Port)},
	}
	for _, p := range s.Spec.Ports {
		if p.Name != "" {
			out = append(out, Variable{prefix + "_SERVICE_PORT_" + upper(p.Name), number(p.Port)})
		}
	}
	for i, p := range s.Spec.Ports {
		protocol := string(p.Protocol)
		if protocol == "" {
			protocol = string(v1.ProtocolTCP)
		}
		url := strings.ToLower(protocol) + "://" + net.JoinHostPort(ip, number(p.Port))
		if i == 0 {
			out = append(out, Variable{prefix + "_PORT", url})
		}
		port := prefix + "_PORT_" + number(p.Port) + "_" + strings.ToUpper(protocol)
		out = append(out,
			Variable{port, url},
			Variable{port + "_PROTO", strings.ToLower(protocol)},
			Variable{port + "_PORT", number(p.Port)},
			Variable{port + "_ADDR", ip})
	}
	return out
}

func upper(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

func number(port int32) string { return strconv.Itoa(int(port)) }
