package criconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/pods/internal/objects"
)

// maxTotal is the most memory Linux gives a program for its arguments and its
// environment together, whatever the size of its stack.
const maxTotal = 6 << 20

// EnvSources gives an environment what is not in the pod itself.
type EnvSources interface {
	// ConfigMap and Secret read an object of the pod's namespace. [objects.IsNotFound]
	// recognizes the error for an object that does not exist.
	ConfigMap(name string) (*v1.ConfigMap, error)
	Secret(name string) (*v1.Secret, error)
	// File reads a file of a volume of the pod; ok is false if there is none.
	File(volume, path string) (content string, ok bool, err error)
}

// EnvInput is what an environment is made of.
type EnvInput struct {
	Pod       *v1.Pod
	Container *v1.Container
	Down      Downward
	Sources   EnvSources
	// Services are the variables with the addresses of services.
	Services []Variable
}

// Variable is one environment variable.
type Variable struct{ Name, Value string }

// NewEnvironment builds a container's environment (spec/runtime.md 11): envFrom, env,
// then services. A later value replaces an earlier one, except that services only fill
// in missing ones. Its errors name what is missing or wrong; they never quote a value.
func NewEnvironment(in EnvInput) (*Environment, error) {
	e := &Environment{values: make(map[string]string, len(in.Container.Env)), secret: map[string]bool{}}
	for i := range in.Container.EnvFrom {
		if err := e.addAll(&in.Container.EnvFrom[i], in.Sources); err != nil {
			return nil, fmt.Errorf("envFrom[%d]: %w", i, err)
		}
	}
	services := make(map[string]string, len(in.Services))
	for _, s := range in.Services {
		services[s.Name] = s.Value
	}
	for i := range in.Container.Env {
		if err := e.add(&in.Container.Env[i], in, services); err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", shown(in.Container.Env[i].Name), err)
		}
	}
	for _, s := range in.Services {
		if _, ok := e.values[s.Name]; ok {
			continue
		}
		if err := e.set(s.Name, s.Value); err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", s.Name, err)
		}
	}
	return e, nil
}

// addAll adds every key of a config map or a secret, sorted, so that the order is
// the same at every start.
func (e *Environment) addAll(from *v1.EnvFromSource, sources EnvSources) error {
	var kind, name string
	values := map[string]string{}
	switch {
	case from.ConfigMapRef != nil:
		kind, name = "ConfigMap", from.ConfigMapRef.Name
		object, err := sources.ConfigMap(name)
		if err != nil {
			return unlessOptional(err, from.ConfigMapRef.Optional)
		}
		maps.Copy(values, object.Data)
	case from.SecretRef != nil:
		kind, name = "Secret", from.SecretRef.Name
		object, err := sources.Secret(name)
		if err != nil {
			return unlessOptional(err, from.SecretRef.Optional)
		}
		for key, value := range object.Data {
			values[key] = string(value)
		}
	default:
		return errors.New("it names neither a config map nor a secret")
	}
	skipped := Skipped{Kind: kind, Name: name}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		variable := from.Prefix + key
		if !usableName(variable) {
			skipped.Keys = append(skipped.Keys, shown(variable))
			continue
		}
		if err := e.set(variable, values[key]); err != nil {
			return fmt.Errorf("key %s of %s %s: %w", key, kind, name, err)
		}
		e.secret[variable] = kind == "Secret"
	}
	if len(skipped.Keys) > 0 {
		e.Skipped = append(e.Skipped, skipped)
	}
	return nil
}

// unlessOptional drops the error that an optional object does not exist. All other
// errors stay (spec/runtime.md 11.2).
func unlessOptional(err error, optional *bool) error {
	if isTrue(optional) && objects.IsNotFound(err) {
		return nil
	}
	return err
}

// usableName allows what a program can be given as a name: printable ASCII
// without '='.
func usableName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '=' {
			return false
		}
	}
	return name != ""
}

// shown makes a name fit for a message.
func shown(name string) string {
	const most = 100
	if len(name) > most {
		name = name[:most] + "..."
	}
	if usableName(name) {
		return name
	}
	return fmt.Sprintf("%q", name)
}

// add adds one entry of env (spec/runtime.md 11.3).
func (e *Environment) add(v *v1.EnvVar, in EnvInput, services map[string]string) error {
	if !usableName(v.Name) {
		return errors.New("not a usable name: it must be printable ASCII without '='")
	}
	if v.Value != "" || v.ValueFrom == nil {
		tainted := false
		value, err := Expand(v.Value, func(name string) (string, bool) {
			if value, ok := e.values[name]; ok {
				tainted = tainted || e.secret[name]
				return value, true
			}
			value, ok := services[name]
			return value, ok
		})
		if err != nil {
			return err
		}
		e.secret[v.Name] = tainted
		return e.set(v.Name, value)
	}
	value, ok, err := e.valueFrom(v.ValueFrom, in)
	if err != nil || !ok {
		return err
	}
	e.secret[v.Name] = v.ValueFrom.SecretKeyRef != nil || v.ValueFrom.FileKeyRef != nil
	return e.set(v.Name, value)
}

// valueFrom resolves one source; ok is false for an optional one that is absent.
func (e *Environment) valueFrom(from *v1.EnvVarSource, in EnvInput) (value string, ok bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = FieldValue(in.Pod, from.FieldRef.FieldPath, in.Down)
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		value, err = resourceValue(in.Pod, in.Container, from.ResourceFieldRef, in.Down.Allocatable)
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		return configMapValue(in.Sources, from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return secretValue(in.Sources, from.SecretKeyRef)
	case from.FileKeyRef != nil:
		return fileValue(in.Sources, from.FileKeyRef)
	}
	return "", false, errors.New("valueFrom names no source")
}

func configMapValue(sources EnvSources, ref *v1.ConfigMapKeySelector) (value string, ok bool, err error) {
	object, err := sources.ConfigMap(ref.Name)
	if err != nil {
		return "", false, unlessOptional(err, ref.Optional)
	}
	if value, ok = object.Data[ref.Key]; !ok && !isTrue(ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %s in ConfigMap %s", shown(ref.Key), ref.Name)
	}
	return value, ok, nil
}

func secretValue(sources EnvSources, ref *v1.SecretKeySelector) (value string, ok bool, err error) {
	object, err := sources.Secret(ref.Name)
	if err != nil {
		return "", false, unlessOptional(err, ref.Optional)
	}
	data, ok := object.Data[ref.Key]
	if !ok && !isTrue(ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %s in Secret %s", shown(ref.Key), ref.Name)
	}
	return string(data), ok, nil
}

// fileValue reads a value from a file that a container of the pod has written. An
// empty value counts as absent (spec/runtime.md 11.7).
func fileValue(sources EnvSources, ref *v1.FileKeySelector) (value string, ok bool, err error) {
	content, ok, err := sources.File(ref.VolumeName, ref.Path)
	if err != nil {
		return "", false, err
	}
	if ok {
		if value, err = FileKey(content, ref.Key); err != nil {
			return "", false, fmt.Errorf("file %q of volume %q: %w", ref.Path, ref.VolumeName, err)
		}
	}
	switch {
	case value != "":
		return value, true, nil
	case isTrue(ref.Optional):
		return "", false, nil
	case !ok:
		return "", false, fmt.Errorf("volume %q has no file %q", ref.VolumeName, ref.Path)
	}
	return "", false, fmt.Errorf("couldn't find key %s in file %q of volume %q", shown(ref.Key), ref.Path, ref.VolumeName)
}
