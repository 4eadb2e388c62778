package criconfig

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Downward is what the downward API tells about where a pod runs.
type Downward struct {
	// HostIPs and PodIPs, primary first.
	HostIPs, PodIPs []string
	// Allocatable is what the node can give.
	Allocatable v1.ResourceList
}

// Environment is a container's environment in declared order.
type Environment struct {
	names  []string
	values map[string]string
}

// set keeps the place of the first declaration and the value of the last.
func (e *Environment) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

// Lookup returns a variable.
func (e *Environment) Lookup(name string) (string, bool) {
	value, ok := e.values[name]
	return value, ok
}

// KeyValues returns the environment as the runtime takes it.
func (e *Environment) KeyValues() []*runtimeapi.KeyValue {
	out := make([]*runtimeapi.KeyValue, 0, len(e.names))
	for _, name := range e.names {
		out = append(out, &runtimeapi.KeyValue{Key: name, Value: []byte(e.values[name])})
	}
	return out
}

// NewEnvironment builds a container's environment (spec/runtime.md 11). Sources
// that only an API server or a volume could answer are an error, unless they are
// optional: then they are skipped as absent.
func NewEnvironment(pod *v1.Pod, c *v1.Container, down Downward) (*Environment, error) {
	e := &Environment{values: make(map[string]string, len(c.Env))}
	for _, from := range c.EnvFrom {
		if err := envFrom(from); err != nil {
			return nil, err
		}
	}
	for i := range c.Env {
		v := &c.Env[i]
		if v.Name == "" || strings.ContainsAny(v.Name, "=\x00") {
			return nil, fmt.Errorf("environment variable %q: not a usable name", v.Name)
		}
		switch {
		case v.Value != "" || v.ValueFrom == nil:
			if strings.ContainsRune(v.Value, 0) {
				return nil, fmt.Errorf("environment variable %s: the value holds a zero byte", v.Name)
			}
			e.set(v.Name, Expand(v.Value, e.Lookup))
		default:
			value, ok, err := valueFrom(pod, c, v.ValueFrom, down)
			if err != nil {
				return nil, fmt.Errorf("environment variable %s: %w", v.Name, err)
			}
			if ok {
				e.set(v.Name, value)
			}
		}
	}
	return e, nil
}

// envFrom skips optional sources; nobody here can read the others.
func envFrom(from v1.EnvFromSource) error {
	switch {
	case from.ConfigMapRef != nil && !isTrue(from.ConfigMapRef.Optional):
		return fmt.Errorf("envFrom: config map %q cannot be read: no source of API objects is configured", from.ConfigMapRef.Name)
	case from.SecretRef != nil && !isTrue(from.SecretRef.Optional):
		return fmt.Errorf("envFrom: secret %q cannot be read: no source of API objects is configured", from.SecretRef.Name)
	}
	return nil
}

// valueFrom resolves one source; ok is false for an optional one that is absent.
func valueFrom(pod *v1.Pod, c *v1.Container, from *v1.EnvVarSource, down Downward) (value string, ok bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = FieldValue(pod, from.FieldRef.FieldPath, down)
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		if isTrue(from.ConfigMapKeyRef.Optional) {
			return "", false, nil
		}
		return "", false, fmt.Errorf("config map %q cannot be read: no source of API objects is configured", from.ConfigMapKeyRef.Name)
	case from.SecretKeyRef != nil:
		if isTrue(from.SecretKeyRef.Optional) {
			return "", false, nil
		}
		return "", false, fmt.Errorf("secret %q cannot be read: no source of API objects is configured", from.SecretKeyRef.Name)
	case from.ResourceFieldRef != nil:
		value, err = resourceValue(pod, c, from.ResourceFieldRef, down.Allocatable)
		return value, err == nil, err
	case from.FileKeyRef != nil:
		return "", false, errors.New("fileKeyRef is not supported")
	}
	return "", false, errors.New("valueFrom names no source")
}

// FieldValue reads a field of the downward API (spec/runtime.md 11.5).
func FieldValue(pod *v1.Pod, path string, down Downward) (string, error) {
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(down.HostIPs), nil
	case "status.hostIPs":
		return strings.Join(down.HostIPs, ","), nil
	case "status.podIP":
		return first(down.PodIPs), nil
	case "status.podIPs":
		return strings.Join(down.PodIPs, ","), nil
	}
	if key, ok := subscript(path, "metadata.labels"); ok {
		return mapValue(pod.Labels, path, key)
	}
	if key, ok := subscript(path, "metadata.annotations"); ok {
		return mapValue(pod.Annotations, path, key)
	}
	return "", fmt.Errorf("fieldRef %q is not a field the downward API has", path)
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// subscript takes key out of name['key'].
func subscript(path, name string) (key string, ok bool) {
	rest, ok := strings.CutPrefix(path, name+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "']")
}

func mapValue(m map[string]string, path, key string) (string, error) {
	if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
		return "", fmt.Errorf("fieldRef %q: %s", path, strings.Join(problems, "; "))
	}
	return m[key], nil
}
