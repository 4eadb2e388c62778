package pods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
	"github.com/podwright/podwright/runtime/pods/internal/objects"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// ServiceLister returns the services that environments describe.
type ServiceLister interface {
	// Services returns the services of a namespace, and false while it does not know
	// all of them. It is called from many goroutines and must not block; the services
	// are only read.
	Services(namespace string) (services []*v1.Service, synced bool)
}

// maxEnvFile bounds a file that environment variables are taken from.
const maxEnvFile = 1 << 20

// buildEnvironment builds the container's environment (spec/runtime.md 11).
func (st *starting) buildEnvironment(ctx context.Context) error {
	services, err := st.services()
	if err != nil {
		return st.m.waits(err)
	}
	e, err := criconfig.NewEnvironment(criconfig.EnvInput{
		Pod: st.pod, Container: st.spec,
		Down: criconfig.Downward{
			HostIPs: st.m.options.HostIPs(), PodIPs: st.podIPs, Allocatable: st.m.allocatable(),
		},
		Sources:  envSources{ctx: ctx, st: st, reader: objects.NewReader(st.m.options.Objects, st.pod.Namespace)},
		Services: services,
	})
	if err != nil {
		return st.m.waits(err)
	}
	for _, s := range e.Skipped {
		st.m.podEvent(st.pod, v1.EventTypeWarning, "InvalidEnvironmentVariableNames",
			"Keys [%s] from the EnvFrom %s %s/%s were skipped since they are considered invalid environment variable names.",
			strings.Join(s.Keys, ", "), s.Kind, st.pod.Namespace, s.Name)
	}
	st.environment = e
	return nil
}

// services returns the variables of services, none without a ServiceLister.
func (st *starting) services() ([]criconfig.Variable, error) {
	lister := st.m.options.Services
	if lister == nil {
		return nil, nil
	}
	namespaces := []string{v1.NamespaceDefault}
	if st.pod.Namespace != v1.NamespaceDefault {
		namespaces = append(namespaces, st.pod.Namespace)
	}
	var all []*v1.Service
	for _, namespace := range namespaces {
		list, synced := lister.Services(namespace)
		if !synced && !podinfo.Static(st.pod) {
			return nil, errors.New("services have not yet been read at least once, cannot construct envs")
		}
		all = append(all, list...)
	}
	return criconfig.ServiceVariables(st.pod, all), nil
}

// envSources reads for one environment.
type envSources struct {
	ctx    context.Context
	st     *starting
	reader *objects.Reader
}

func (s envSources) ConfigMap(name string) (*v1.ConfigMap, error) {
	return s.reader.ConfigMap(s.ctx, name)
}

func (s envSources) Secret(name string) (*v1.Secret, error) { return s.reader.Secret(s.ctx, name) }

// File reads a file of an emptyDir volume of the pod. It follows no link out of the
// volume, and its errors contain no path of the node (spec/runtime.md 11.7).
func (s envSources) File(volume, path string) (string, bool, error) {
	if !hasEmptyDir(s.st.pod, volume) {
		return "", false, fmt.Errorf("fileKeyRef: the pod has no emptyDir volume %q", volume)
	}
	if !filepath.IsLocal(path) {
		return "", false, fmt.Errorf("fileKeyRef: path %q must be relative and stay in the volume", path)
	}
	ready, err := s.st.volumes.get(s.st.pod, volume)
	if err != nil {
		return "", false, fmt.Errorf("volume %q: %w", volume, err)
	}
	root := ready.HostPath
	f, err := poddir.OpenFile(root, filepath.Join(root, path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("file %q of volume %q cannot be opened or is no regular file", path, volume)
	}
	defer f.Close()
	text, err := durable.ReadOpen(f, maxEnvFile)
	if err != nil {
		return "", false, fmt.Errorf("file %q of volume %q: %w", path, volume, err)
	}
	return string(text), true, nil
}

func hasEmptyDir(pod *v1.Pod, name string) bool {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == name {
			return v.EmptyDir != nil
		}
	}
	return false
}
