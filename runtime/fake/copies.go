package fake

import (
	"maps"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// clone copies a message so that neither side sees changes of the other.
func clone[M proto.Message](m M) M { return proto.Clone(m).(M) }

// The messages that every status contains are copied field by field: clone takes ten times as long.

func copyContainerMetadata(m *runtimeapi.ContainerMetadata) *runtimeapi.ContainerMetadata {
	if m == nil {
		return nil
	}
	return &runtimeapi.ContainerMetadata{Name: m.Name, Attempt: m.Attempt}
}

func copySandboxMetadata(m *runtimeapi.PodSandboxMetadata) *runtimeapi.PodSandboxMetadata {
	if m == nil {
		return nil
	}
	return &runtimeapi.PodSandboxMetadata{Name: m.Name, Uid: m.Uid, Namespace: m.Namespace, Attempt: m.Attempt}
}

func copyImage(m *runtimeapi.ImageSpec) *runtimeapi.ImageSpec {
	if m == nil {
		return nil
	}
	return &runtimeapi.ImageSpec{
		Image: m.Image, Annotations: maps.Clone(m.Annotations), UserSpecifiedImage: m.UserSpecifiedImage,
		RuntimeHandler: m.RuntimeHandler, ImageRef: m.ImageRef,
	}
}
