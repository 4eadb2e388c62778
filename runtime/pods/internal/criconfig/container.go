package criconfig

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// ContainerInput is what a container configuration is made of.
type ContainerInput struct {
	meta.Described
	Node        Node
	Environment *Environment
	// ImageRef is the reference of the image in the store.
	ImageRef  string
	ImageUser ImageUser
	Mounts    []*runtimeapi.Mount
	// UserNamespace maps the users of a pod with hostUsers: false.
	UserNamespace *IDMapping
	// TargetID is the container whose processes an ephemeral container sees.
	TargetID string
}

// maxMessagePath bounds a path that runtimes show in lists (spec/runtime.md 2.10).
const maxMessagePath = 1024

// LogPath returns a container's log file relative to the pod's log directory
// (spec/runtime.md 18.1).
func LogPath(container string, restartCount int) string {
	return container + "/" + strconv.Itoa(restartCount) + ".log"
}

// Container returns the configuration of a container (spec/runtime.md 8).
func Container(in ContainerInput) (*runtimeapi.ContainerConfig, error) {
	c := in.Container
	security, err := containerSecurity(in.Pod, c, in.ImageUser, in.UserNamespace, in.Node)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(
		checkResources("pod", podRequirements(in.Pod), in.Node), checkResources("container "+c.Name, c.Resources, in.Node),
	); err != nil {
		return nil, err
	}
	if in.TargetID != "" && security.NamespaceOptions.Pid == runtimeapi.NamespaceMode_CONTAINER {
		security.NamespaceOptions.Pid = runtimeapi.NamespaceMode_TARGET
		security.NamespaceOptions.TargetId = in.TargetID
	}
	signal, err := stopSignal(c)
	if err != nil {
		return nil, err
	}
	if n := len(c.TerminationMessagePath); n > maxMessagePath {
		return nil, fmt.Errorf("terminationMessagePath: it has %d bytes, want %d at most", n, maxMessagePath)
	}
	command, err := expandAll("command", c.Command, in.Environment)
	if err != nil {
		return nil, err
	}
	args, err := expandAll("args", c.Args, in.Environment)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(in.RestartCount)},
		// Without the pod's annotations: runtimes show them in lists, once per container (2.10).
		Image:       &runtimeapi.ImageSpec{Image: in.ImageRef, UserSpecifiedImage: c.Image},
		Command:     command,
		Args:        args,
		WorkingDir:  c.WorkingDir,
		Envs:        in.Environment.KeyValues(),
		Mounts:      mapUsers(in.Mounts, usersOf(in)),
		Labels:      meta.ContainerLabels(in.Pod, c.Name, in.Node.Owner),
		Annotations: meta.ContainerAnnotations(in.Described),
		LogPath:     LogPath(c.Name, in.RestartCount),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		StopSignal:  signal,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       ContainerResources(in.Pod, c, in.Node),
			SecurityContext: security,
		},
	}, nil
}

// usersOf returns the pod's mapping, nil if it shares the node's users.
func usersOf(in ContainerInput) *IDMapping {
	if !usesUserNamespace(in.Pod) {
		return nil
	}
	return in.UserNamespace
}

// mapUsers gives every mount the pod's view of user IDs (spec/runtime.md 3.7).
func mapUsers(mounts []*runtimeapi.Mount, users *IDMapping) []*runtimeapi.Mount {
	if users != nil {
		for _, m := range mounts {
			m.UidMappings, m.GidMappings = users.list(), users.list()
		}
	}
	return mounts
}

func expandAll(field string, list []string, e *Environment) ([]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make([]string, len(list))
	size := 0
	for i, s := range list {
		var err error
		if out[i], err = Expand(s, e.Lookup); err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		if size += len(out[i]); size > maxTotal {
			return nil, fmt.Errorf("%s: more than the %d bytes a program can take", field, maxTotal)
		}
		if !utf8.ValidString(out[i]) {
			return nil, fmt.Errorf("%s[%d]: not valid UTF-8 once variables are expanded", field, i)
		}
	}
	return out, nil
}

// stopSignal maps by name (spec/runtime.md 8.1).
func stopSignal(c *v1.Container) (runtimeapi.Signal, error) {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil || *c.Lifecycle.StopSignal == "" {
		return runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT, nil
	}
	name := string(*c.Lifecycle.StopSignal)
	value, ok := runtimeapi.Signal_value["SIGNAL_"+signalName(name)]
	if !ok {
		return 0, fmt.Errorf("stopSignal %q is unknown", name)
	}
	return runtimeapi.Signal(value), nil
}

// signalName turns the API's SIGRTMIN+1 into the runtime's SIGRTMINPLUS1.
func signalName(name string) string {
	return strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(name)
}
