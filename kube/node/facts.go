package node

import (
	"cmp"
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Limits on the images that a Node shows, the kubelet's.
const (
	maxImages        = 50
	maxNamesPerImage = 5
)

// facts are the agent's fields of a Node's status, except the conditions.
type facts struct {
	Capacity, Allocatable v1.ResourceList
	Addresses             []v1.NodeAddress
	Unaddressed           bool // Addresses are only what a Node without any gets
	Info                  v1.NodeSystemInfo
	Port                  int32
	Runtime               runtimeFacts
}

// runtimeFacts are the facts that only the runtime knows. They are read separately from the writing
// of statuses, which a runtime that does not answer must not delay.
type runtimeFacts struct {
	Known    bool
	Version  string // such as containerd://2.1.4
	Images   []v1.ContainerImage
	Handlers []v1.NodeRuntimeHandler
	Features *v1.NodeFeatures
	// HostNetworkUsers: pods on the node's network can have users of their own.
	HostNetworkUsers bool
}

// hostNetworkUsers is the declared feature that depends on the runtime.
const hostNetworkUsers = "UserNamespacesHostNetworkSupport"

// declared returns the features that the scheduler and the API server ask the node for, sorted: those that the engine has
// (runtime.md 6.9, 21.3, 21.10) and, if ofRuntime, that of the runtime.
func declared(ofRuntime bool) []string {
	list := []string{"InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers", "RestartAllContainersOnContainerExits"}
	if ofRuntime {
		list = append(list, hostNetworkUsers)
	}
	return list
}

// facts returns the current facts.
func (r *Registrar) facts() facts {
	o := &r.options
	r.mu.Lock()
	runtime := r.runtime
	r.mu.Unlock()
	f := facts{Info: r.machine, Port: o.Port, Runtime: runtime}
	if f.Info.ContainerRuntimeVersion == "" {
		f.Info.ContainerRuntimeVersion = runtime.Version
	}
	f.Capacity = o.capacity()
	f.Allocatable = o.allocatable(f.Capacity)
	if o.Addresses != nil {
		f.Addresses = o.Addresses()
	}
	if len(f.Addresses) == 0 {
		f.Unaddressed = o.Addresses != nil
		f.Addresses = []v1.NodeAddress{{Type: v1.NodeHostName, Address: o.Name}}
	}
	return f
}

// apply writes the facts into a status. It keeps what the runtime was never asked for, and addresses while none is known,
// if they are this machine's.
func (f *facts) apply(s *v1.NodeStatus) {
	if otherMachine(s.NodeInfo, f.Info) {
		s.NodeInfo.ContainerRuntimeVersion, s.Addresses, s.DeclaredFeatures = "", nil, nil
		s.Images, s.RuntimeHandlers, s.Features = nil, nil, nil
	}
	runtime := s.NodeInfo.ContainerRuntimeVersion
	s.Capacity, s.Allocatable = f.Capacity, f.Allocatable
	s.NodeInfo = f.Info
	if !f.Unaddressed || len(s.Addresses) == 0 {
		s.Addresses = f.Addresses
	}
	if s.NodeInfo.ContainerRuntimeVersion == "" {
		s.NodeInfo.ContainerRuntimeVersion = runtime
	}
	if s.DaemonEndpoints.KubeletEndpoint.Port = 0; f.Port != 0 {
		s.DaemonEndpoints.KubeletEndpoint.Port = f.Port
	}
	able := f.Runtime.HostNetworkUsers
	if !f.Runtime.Known {
		able = slices.Contains(s.DeclaredFeatures, hostNetworkUsers)
	}
	s.DeclaredFeatures = declared(able)
	if f.Runtime.Known {
		s.Images, s.RuntimeHandlers, s.Features = f.Runtime.Images, f.Runtime.Handlers, f.Runtime.Features
	}
}

func (f *facts) equal(other *facts) bool {
	return other != nil && equality.Semantic.DeepEqual(f, other)
}

// readRuntime asks the runtime. For a call that fails, the last answer stays.
func (r *Registrar) readRuntime(ctx context.Context, last runtimeFacts) runtimeFacts {
	if rt := r.options.Runtime; rt != nil {
		if version, err := rt.Version(ctx, "v1"); err == nil {
			last.Known, last.Version = true, version.GetRuntimeName()+"://"+version.GetRuntimeVersion()
		}
		if status, err := rt.Status(ctx, false); err == nil {
			last.Known, last.Handlers, last.Features = true, handlers(status.GetRuntimeHandlers()), features(status.GetFeatures())
			last.HostNetworkUsers = status.GetFeatures().GetUserNamespacesHostNetwork()
		}
	}
	if r.options.Images != nil {
		if images, err := r.options.Images.ListImages(ctx, nil); err == nil {
			last.Known, last.Images = true, largest(images)
		}
	}
	return last
}

// largest returns the images that take the most space, with their names.
func largest(images []*runtimeapi.Image) []v1.ContainerImage {
	images = slices.Clone(images)
	slices.SortStableFunc(images, func(a, b *runtimeapi.Image) int {
		return cmp.Or(cmp.Compare(b.GetSize(), a.GetSize()), strings.Compare(a.GetId(), b.GetId()))
	})
	var shown []v1.ContainerImage
	for _, image := range images[:min(len(images), maxImages)] {
		names := slices.Concat(image.GetRepoDigests(), image.GetRepoTags())
		slices.Sort(names[:len(image.GetRepoDigests())])
		slices.Sort(names[len(image.GetRepoDigests()):])
		names = names[:min(len(names), maxNamesPerImage)]
		shown = append(shown, v1.ContainerImage{Names: names, SizeBytes: int64(image.GetSize())})
	}
	return shown
}

// handlers returns what pods can name in a RuntimeClass, in the order of their names.
func handlers(of []*runtimeapi.RuntimeHandler) []v1.NodeRuntimeHandler {
	var shown []v1.NodeRuntimeHandler
	for _, h := range of {
		one := v1.NodeRuntimeHandler{Name: h.GetName()}
		if f := h.GetFeatures(); f != nil {
			one.Features = &v1.NodeRuntimeHandlerFeatures{
				RecursiveReadOnlyMounts: &f.RecursiveReadOnlyMounts, UserNamespaces: &f.UserNamespaces,
			}
		}
		shown = append(shown, one)
	}
	slices.SortFunc(shown, func(a, b v1.NodeRuntimeHandler) int { return strings.Compare(a.Name, b.Name) })
	return shown
}

func features(of *runtimeapi.RuntimeFeatures) *v1.NodeFeatures {
	if of == nil {
		return nil
	}
	return &v1.NodeFeatures{SupplementalGroupsPolicy: &of.SupplementalGroupsPolicy}
}
