package main

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// leastUIDPrefix is the shortest prefix of a UID that can name a pod.
const leastUIDPrefix = 4

// splitName parses POD of a command line: NAME, or NAMESPACE/NAME, which overrides the chosen namespace.
func splitName(chosen, pod string) (namespace, name string) {
	if namespace, name, found := strings.Cut(pod, "/"); found {
		return namespace, name
	}
	return chosen, pod
}

// meanings are the ways in which a name can match a pod, the closest first: the UID, the name, the name without the
// node's name at its end, the beginning of the UID. An empty namespace means all; UIDs match in all namespaces.
func meanings(namespace, name string) []func(p *v1.Pod) bool {
	in := func(p *v1.Pod) bool { return namespace == "" || p.Namespace == namespace }
	return []func(p *v1.Pod) bool{
		func(p *v1.Pod) bool { return string(p.UID) == name },
		func(p *v1.Pod) bool { return in(p) && p.Name == name },
		func(p *v1.Pod) bool { return in(p) && p.Name == name+"-"+p.Spec.NodeName },
		func(p *v1.Pod) bool { return len(name) >= leastUIDPrefix && strings.HasPrefix(string(p.UID), name) },
	}
}

// isNamed reports whether a name can match the pod.
func isNamed(pod *v1.Pod, namespace, name string) bool {
	return slices.ContainsFunc(meanings(namespace, name), func(is func(*v1.Pod) bool) bool { return is(pod) })
}

// findPods returns the pods that a name matches, by the closest match that finds any.
func findPods(pods []v1.Pod, namespace, name string) (found []*v1.Pod) {
	for _, is := range meanings(namespace, name) {
		for i := range pods {
			if is(&pods[i]) {
				found = append(found, &pods[i])
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// ambiguous returns an error if a name matches several pods; several lives of one pod are no error.
func ambiguous(name string, found []*v1.Pod) error {
	if !slices.ContainsFunc(found, func(p *v1.Pod) bool { return p.Namespace != found[0].Namespace || p.Name != found[0].Name }) {
		return nil
	}
	var all []string
	for _, p := range found {
		all = append(all, fmt.Sprintf("%s/%s (UID %s)", p.Namespace, p.Name, p.UID))
	}
	slices.Sort(all)
	return fmt.Errorf("%q means several pods: %s; name one as NAMESPACE/NAME, or by more of its UID", name, strings.Join(all, ", "))
}

// missing reports that a namespace has no such pod, and names those of other namespaces.
func missing(pods []v1.Pod, namespace, name string) error {
	text := fmt.Sprintf("there is no pod %q", name)
	if namespace != "" {
		text += fmt.Sprintf(" in namespace %q", namespace)
	}
	var elsewhere []string
	for _, p := range findPods(pods, "", name) {
		elsewhere = append(elsewhere, p.Namespace+"/"+p.Name)
	}
	if len(elsewhere) > 0 {
		return fmt.Errorf("%s, but there is %s", text, strings.Join(elsewhere, ", "))
	}
	return fmt.Errorf("%s; nodeagent pods lists them", text)
}
